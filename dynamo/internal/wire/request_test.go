package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// keys are the credentials of tests.
var keys = aws.Credentials{
	AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token", AccountID: "123456789012",
	Source: "test",
}

// provider provides credentials.
type provider func() aws.Credentials

func (p provider) Retrieve(context.Context) (aws.Credentials, error) { return p(), nil }

func (provider) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceEnvVars}
}

// server is an HTTP client that keeps requests and answers them.
type server struct {
	requests []*http.Request
	bodies   []string
	date     string
	status   int
	reply    string
}

func (s *server) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.requests, s.bodies = append(s.requests, req), append(s.bodies, string(body))
	return &http.Response{
		StatusCode: s.status, Header: http.Header{"Date": {s.date}}, ContentLength: int64(len(s.reply)),
		Body: io.NopCloser(strings.NewReader(s.reply)),
	}, nil
}

func newServer() *server {
	return &server{
		date: time.Now().UTC().Format(http.TimeFormat), status: http.StatusOK,
		reply: `{"Attributes":{"rf":{"N":"1"}}}`,
	}
}

// newClient returns a client of the SDK and a wire that both send to a server.
func newClient(t *testing.T, s *server, adapt func(*dynamodb.Options)) (*dynamodb.Client, *Client) {
	t.Helper()
	sdk := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", HTTPClient: s, Retryer: aws.NopRetryer{}, DisableValidateResponseChecksum: true,
		Credentials: provider(func() aws.Credentials { return keys }),
	}, adapt)
	w, ok := New(sdk, s.Do)
	if !ok {
		t.Fatal("the wire does not apply")
	}
	return sdk, w
}

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// charge returns an update with everything that a charge may have.
func charge() *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"),
		Key: map[string]types.AttributeValue{
			"PK": text("ns/ENTITY#\"\\\x01\u2028<ä&>"), "SK": text("#BUCKET#gpt-4"),
		},
		UpdateExpression:    aws.String("SET #0 = :0, #2 = :2 ADD #1 :1"),
		ConditionExpression: aws.String("#0 >= :0 AND #1 < :1"),
		ExpressionAttributeNames: map[string]string{
			"#0": "rf", "#1": "b_rpm_tk", "#2": "cascade",
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":0": number("1763270000000"), ":1": number("-1000"), ":2": &types.AttributeValueMemberBOOL{Value: true},
			":3": &types.AttributeValueMemberBOOL{}, ":4": text(""),
		},
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// TestRequestsAreTheSDKs sends an update both ways under every option that
// changes requests, and compares what arrives.
func TestRequestsAreTheSDKs(t *testing.T) {
	for name, adapt := range map[string]func(*dynamodb.Options){
		"plain": func(*dynamodb.Options) {},
		"FIPS": func(o *dynamodb.Options) {
			o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		},
		"dual stack": func(o *dynamodb.Options) {
			o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
		},
		"without account":   func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeDisabled },
		"preferred account": func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModePreferred },
		"required account":  func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired },
		"own endpoint":      func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://localhost:8000") },
		"path": func(o *dynamodb.Options) {
			o.BaseEndpoint = aws.String("https://proxy.example:443/to the/table")
		},
		"no TLS":      func(o *dynamodb.Options) { o.EndpointOptions.DisableHTTPS = true },
		"China":       func(o *dynamodb.Options) { o.Region = "cn-north-1" },
		"application": func(o *dynamodb.Options) { o.AppID = "shop" },
		"tries":       func(o *dynamodb.Options) { o.RetryMaxAttempts = 7 },
		"no token": func(o *dynamodb.Options) {
			o.Credentials = provider(func() aws.Credentials {
				return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}
			})
		},
	} {
		t.Run(name, func(t *testing.T) { compareRequests(t.Context(), t, newServer(), adapt) })
	}
}

// A service whose clock is ahead makes the SDK move the date of its signatures,
// and send the deadline of the caller.
func TestSkewIsInTheSignature(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		s := newServer()
		s.date = time.Now().Add(ahead).UTC().Format(http.TimeFormat)
		compareRequests(ctx, t, s, func(*dynamodb.Options) {})
		for _, req := range s.requests[2:] {
			at, err := time.Parse(dateLayout, req.Header.Get(headerDate))
			if off := time.Until(at) - ahead; err != nil || off.Abs() > time.Minute {
				t.Errorf("the service is %v ahead, and the signature has %v: %v", ahead, at, err)
			}
			if header := req.Header.Get(headerAttempt); strings.Contains(header, "ttl=") != (ahead > 0) {
				t.Errorf("%v ahead: %s", ahead, header)
			}
		}
	}
}

// compareRequests sends an update twice both ways.
func compareRequests(ctx context.Context, t *testing.T, s *server, adapt func(*dynamodb.Options)) {
	t.Helper()
	sdk, w := newClient(t, s, adapt)
	for range 2 {
		if _, err := sdk.UpdateItem(ctx, charge()); err != nil {
			t.Fatal(err)
		}
		out, err := w.UpdateItem(ctx, charge())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(
			map[string]types.AttributeValue{"rf": number("1")}, out.Attributes, ignoreSerde,
		); diff != "" {
			t.Error(diff)
		}
	}
	if len(s.requests) != 4 {
		t.Fatalf("%d requests", len(s.requests))
	}
	for i := 0; i < len(s.requests); i += 2 {
		want, got := s.requests[i], s.requests[i+1]
		if diff := cmp.Diff(contentOf(t, want, s.bodies[i]), contentOf(t, got, s.bodies[i+1])); diff != "" {
			t.Errorf("the SDK (-) and the wire (+):\n%s", diff)
		}
		checkSignature(ctx, t, got, s.bodies[i+1], w)
	}
}

// content is what two requests with the same meaning have in common.
type content struct {
	Method, URL, Host string
	Length            bool // the length is the body's
	Header            map[string][]string
	Body              any
}

func contentOf(t *testing.T, req *http.Request, body string) content {
	t.Helper()
	c := content{
		Method: req.Method, URL: req.URL.String(), Host: req.Host, Header: maps.Clone(req.Header),
		Length: req.ContentLength == int64(len(body)),
	}
	if err := json.Unmarshal([]byte(body), &c.Body); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{headerDate, headerInvocation} {
		if len(c.Header[name]) != 1 || c.Header[name][0] == "" {
			t.Errorf("the header %s is %q", name, c.Header[name])
		}
		c.Header[name] = nil
	}
	authorization, _, _ := strings.Cut(c.Header[headerAuthorization][0], "Signature=")
	c.Header[headerAuthorization] = []string{authorization} // the credentials, the scope and the signed headers
	return c
}

// checkSignature signs a request again, with a signer of its own.
func checkSignature(ctx context.Context, t *testing.T, req *http.Request, body string, w *Client) {
	t.Helper()
	want := req.Header.Get(headerAuthorization)
	at, err := time.Parse(dateLayout, req.Header.Get(headerDate))
	if err != nil {
		t.Fatal(err)
	}
	again := req.Clone(ctx)
	again.Header.Del(headerAuthorization)
	credentials, err := w.options.Credentials.Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := v4.NewSigner().SignHTTP(
		ctx, credentials, again, hashOf([]byte(body)), "dynamodb", w.options.Region, at,
	); err != nil {
		t.Fatal(err)
	}
	if got := again.Header.Get(headerAuthorization); got != want {
		t.Errorf("signed again: %s\nsent: %s", got, want)
	}
}

// Every request has an invocation ID of its own.
func TestInvocationsDiffer(t *testing.T) {
	s := newServer()
	_, w := newClient(t, s, func(*dynamodb.Options) {})
	ids := map[string]bool{}
	for range 3 {
		if _, err := w.UpdateItem(t.Context(), charge()); err != nil {
			t.Fatal(err)
		}
		ids[s.requests[len(s.requests)-1].Header.Get(headerInvocation)] = true
	}
	if len(ids) != 3 {
		t.Errorf("the IDs are %v", slices.Collect(maps.Keys(ids)))
	}
}

// New credentials sign the next request, and may lead to another endpoint.
func TestCredentialsChange(t *testing.T) {
	s, now := newServer(), keys
	_, w := newClient(t, s, func(o *dynamodb.Options) {
		o.Credentials = provider(func() aws.Credentials { return now })
	})
	for _, account := range []string{"123456789012", "210987654321"} {
		now.AccountID, now.SessionToken = account, "token of "+account
		if _, err := w.UpdateItem(t.Context(), charge()); err != nil {
			t.Fatal(err)
		}
		last := s.requests[len(s.requests)-1]
		if !strings.HasPrefix(last.URL.Host, account+".") || last.Header.Get(headerToken) != now.SessionToken {
			t.Errorf("account %s: %s, %q", account, last.URL.Host, last.Header.Get(headerToken))
		}
		checkSignature(t.Context(), t, last, s.bodies[len(s.bodies)-1], w)
	}
}

// What the wire cannot send is left to the SDK before anything is sent.
func TestUnsent(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	odd := func(change func(*dynamodb.UpdateItemInput)) *dynamodb.UpdateItemInput {
		in := charge()
		change(in)
		return in
	}
	for name, c := range map[string]struct {
		ctx   context.Context
		in    *dynamodb.UpdateItemInput
		adapt func(*dynamodb.Options)
	}{
		"ended":     {ctx: ended},
		"list":      {in: odd(func(in *dynamodb.UpdateItemInput) { in.Key["PK"] = &types.AttributeValueMemberL{} })},
		"not UTF-8": {in: odd(func(in *dynamodb.UpdateItemInput) { in.Key["PK"] = text("\xff") })},
		"metrics": {in: odd(func(in *dynamodb.UpdateItemInput) {
			in.ReturnItemCollectionMetrics = types.ReturnItemCollectionMetricsSize
		})},
		"no table": {in: odd(func(in *dynamodb.UpdateItemInput) { in.TableName = nil })},
		"no account": {adapt: func(o *dynamodb.Options) {
			o.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired
			o.Credentials = provider(func() aws.Credentials {
				return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}
			})
		}},
		"no credentials": {adapt: func(o *dynamodb.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, io.ErrUnexpectedEOF
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			if c.adapt == nil {
				c.adapt = func(*dynamodb.Options) {}
			}
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			if c.in == nil {
				c.in = charge()
			}
			_, w := newClient(t, s, c.adapt)
			//nolint:errorlint // callers compare it
			if _, err := w.UpdateItem(c.ctx, c.in); err != ErrUnsent || len(s.requests) > 0 {
				t.Errorf("%v after %d requests", err, len(s.requests))
			}
		})
	}
}

// A request whose signature differs from the SDK's is not sent.
func TestOtherSignatureIsNotSent(t *testing.T) {
	s := newServer()
	_, w := newClient(t, s, func(*dynamodb.Options) {})
	w.options.HTTPSignerV4 = oddSigner{v4.NewSigner()}
	//nolint:errorlint // callers compare it
	if _, err := w.UpdateItem(t.Context(), charge()); err != ErrUnsent || len(s.requests) > 0 {
		t.Errorf("%v after %d requests", err, len(s.requests))
	}
}

// oddSigner signs for another region.
type oddSigner struct{ *v4.Signer }

func (o oddSigner) SignHTTP(
	ctx context.Context, c aws.Credentials, r *http.Request, hash, service, _ string, at time.Time,
	opts ...func(*v4.SignerOptions),
) error {
	return o.Signer.SignHTTP(ctx, c, r, hash, service, "eu-west-1", at, opts...)
}

// A body can be read once the request has returned, since the transport may still
// be writing it.
func TestBodiesAreNotShared(t *testing.T) {
	a, ok := encode(charge())
	if !ok {
		t.Fatal("a charge cannot be encoded")
	}
	before := bytes.Clone(a)
	if _, ok := encode(&dynamodb.UpdateItemInput{
		TableName: aws.String(strings.Repeat("x", 4000)),
	}); !ok || !bytes.Equal(a, before) {
		t.Error("a second update changed the first")
	}
}

// Callers at the same time share a client while its credentials change.
func TestConcurrentUse(t *testing.T) {
	var turn atomic.Int64
	changing := provider(func() aws.Credentials {
		now := keys
		now.SessionToken = strconv.FormatInt(turn.Add(1)/10, 10)
		return now
	})
	_, w := newClient(t, newServer(), func(o *dynamodb.Options) { o.Credentials = changing })
	w.send = func(req *http.Request) (*http.Response, error) { return newServer().Do(req) }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if out, err := w.UpdateItem(t.Context(), charge()); err != nil || len(out.Attributes) != 1 {
					t.Errorf("%v, %v", out, err)
				}
			}
		})
	}
	wg.Wait()
}
