package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyrand "github.com/aws/smithy-go/rand"
)

// Headers that differ from request to request.
const (
	headerAuthorization = "Authorization"
	headerDate          = "X-Amz-Date"
	headerToken         = "X-Amz-Security-Token"
	headerInvocation    = "Amz-Sdk-Invocation-Id"
	headerAttempt       = "Amz-Sdk-Request"
)

const dateLayout = "20060102T150405Z"

// model is a request that the SDK has made and never sent: its address, its
// headers and its signature. It is immutable.
type model struct {
	table       string
	credentials aws.Credentials
	// Without the headers that differ from request to request.
	original *http.Request
	// The scope of the signature.
	region, service string
}

// recorder is an HTTP client that keeps a request instead of sending it.
type recorder struct {
	request *http.Request
	body    []byte
}

// Do keeps a request, and fails.
func (r *recorder) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.request, r.body = req, body
	return nil, errRecorded
}

var (
	errRecorded  = errors.New("the request was recorded, not sent")
	errSignature = errors.New("the request has another signature than the SDK's")
)

// newModel lets the SDK make a request with the given credentials. It returns an
// error if the SDK cannot, or if our signature of the request would be another.
func (c *Client) newModel(
	ctx context.Context, in *dynamodb.UpdateItemInput, credentials aws.Credentials,
) (*model, error) {
	var r recorder

	// A deadline may be in a header, which the model must not have.
	ctx = context.WithoutCancel(ctx)

	_, err := c.plain.UpdateItem(ctx, in, func(o *dynamodb.Options) {
		o.HTTPClient, o.Credentials = &r, fixedCredentials{o.Credentials, credentials}
	})

	// The recorder fails every request, so the error does not matter once there
	// is one.
	if r.request == nil {
		return nil, err
	}

	m := &model{table: aws.ToString(in.TableName), credentials: credentials}
	m.original = r.request.Clone(context.Background()) //nolint:contextcheck // the model outlives this call
	m.original.Body = nil

	m.region, m.service = scopeOf(r.request.Header.Get(headerAuthorization))
	for _, name := range []string{headerAuthorization, headerDate, headerToken, headerInvocation} {
		m.original.Header.Del(name)
	}

	if err := m.check(ctx, c.options.HTTPSignerV4, &r); err != nil {
		return nil, err
	}
	return m, nil
}

// check signs the recorded request again, and compares the signatures.
func (m *model) check(ctx context.Context, signer dynamodb.HTTPSignerV4, r *recorder) error {
	date, err := time.Parse(dateLayout, r.request.Header.Get(headerDate))
	if err != nil {
		return err
	}

	again, err := m.request(ctx, r.body, 0)
	if err != nil {
		return err
	}

	// The signature covers the invocation ID, so the second request needs the
	// same one.
	again.Header.Set(headerInvocation, r.request.Header.Get(headerInvocation))
	if err := m.sign(ctx, signer, again, r.body, date); err != nil {
		return err
	}

	if again.Header.Get(headerAuthorization) != r.request.Header.Get(headerAuthorization) {
		return errSignature
	}
	return nil
}

// fixedCredentials provides the same credentials all the time. The SDK names their
// source in the user agent.
type fixedCredentials struct {
	aws.CredentialsProvider
	credentials aws.Credentials
}

// Retrieve returns the credentials.
func (f fixedCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	return f.credentials, nil
}

// ProviderSources returns where the credentials come from.
func (f fixedCredentials) ProviderSources() []aws.CredentialSource {
	if from, ok := f.CredentialsProvider.(aws.CredentialProviderSource); ok {
		return from.ProviderSources()
	}
	return nil
}

// scopeOf returns the region and the service that a signature is for:
//
//	AWS4-HMAC-SHA256 Credential=AKID/20260314/us-east-1/dynamodb/aws4_request, ...
func scopeOf(authorization string) (region, service string) {
	credential, _, _ := strings.Cut(authorization, ",")
	if parts := strings.Split(credential, "/"); len(parts) >= 5 {
		return parts[len(parts)-3], parts[len(parts)-2]
	}
	return "", ""
}

// fits reports whether requests for an input with the given credentials may copy
// the model. The endpoint may depend on the account, and the user agent on the
// source of the credentials.
func (m *model) fits(in *dynamodb.UpdateItemInput, credentials *aws.Credentials) bool {
	return m.credentials.AccessKeyID == credentials.AccessKeyID &&
		m.credentials.SecretAccessKey == credentials.SecretAccessKey &&
		m.credentials.SessionToken == credentials.SessionToken && m.credentials.AccountID == credentials.AccountID &&
		m.table == aws.ToString(in.TableName)
}

// request returns a copy of the model with a body and an invocation ID of its own.
func (m *model) request(ctx context.Context, body []byte, skew time.Duration) (*http.Request, error) {
	invocation, err := smithyrand.NewUUID(rand.Reader).GetUUID()
	if err != nil {
		return nil, err
	}

	req := m.original.Clone(ctx)
	req.Header[headerInvocation] = []string{invocation}

	// As the SDK does, only if the service's clock is known to be ahead.
	if end, ok := ctx.Deadline(); ok && skew > 0 {
		req.Header[headerAttempt] = []string{
			req.Header.Get(headerAttempt) + "; ttl=" + end.Add(skew).Format(dateLayout),
		}
	}

	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return req, nil
}

// sign signs a request at a time.
func (m *model) sign(
	ctx context.Context, signer dynamodb.HTTPSignerV4, req *http.Request, body []byte, at time.Time,
) error {
	return signer.SignHTTP(ctx, m.credentials, req, hashOf(body), m.service, m.region, at)
}

// hashOf returns the hash of a body that a signature includes.
func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
