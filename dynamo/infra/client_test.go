package infra

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// answers is an HTTP client that answers with its elements in turn, and then always
// with the last one.
type answers struct {
	with   []answer
	then   func() // called after each answer, if not nil
	sent   []*http.Request
	bodies []string
}

// answer is a response, with fields of its header as "Name: value".
type answer struct {
	status int
	body   string
	header []string
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}

	body := []byte{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	a.sent, a.bodies = append(a.sent, r), append(a.bodies, string(body))

	with := a.with[min(len(a.sent), len(a.with))-1]
	response := &http.Response{
		StatusCode: with.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(with.body)),
	}
	for _, field := range with.header {
		name, value, _ := strings.Cut(field, ": ")
		response.Header.Set(name, value)
	}

	if a.then != nil {
		a.then()
	}
	return response, nil
}

// newTestClient returns a client of a service that a answers.
func newTestClient(t *testing.T, of service, a *answers) *client {
	t.Helper()
	return newClientWith(t, of, aws.Config{
		Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""), HTTPClient: a,
	})
}

func newClientWith(t *testing.T, of service, cfg aws.Config) *client {
	t.Helper()
	s, err := newSession(t.Context(), "test", &Options{Dynamo: dynamo.Options{AWS: &cfg}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err = s.config(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.newClient(t.Context(), of, cfg)
}

func TestClientEndpoints(t *testing.T) {
	for settings, want := range map[string]string{
		"eu-west-1": "monitoring.eu-west-1.amazonaws.com ec2.eu-west-1.amazonaws.com api.ecr.eu-west-1.amazonaws.com " +
			"ecs.eu-west-1.amazonaws.com lambda.eu-west-1.amazonaws.com sqs.eu-west-1.amazonaws.com ssm.eu-west-1.amazonaws.com",
		"eu-west-1 dual": "monitoring.eu-west-1.api.aws ec2.eu-west-1.api.aws ecr.eu-west-1.api.aws " +
			"ecs.eu-west-1.api.aws lambda.eu-west-1.api.aws sqs.eu-west-1.api.aws ssm.eu-west-1.api.aws",
		"us-east-2 fips": "monitoring-fips.us-east-2.amazonaws.com ec2-fips.us-east-2.amazonaws.com " +
			"api.ecr-fips.us-east-2.amazonaws.com ecs-fips.us-east-2.amazonaws.com lambda-fips.us-east-2.amazonaws.com " +
			"sqs-fips.us-east-2.amazonaws.com ssm-fips.us-east-2.amazonaws.com",
		"us-east-2 fips dual": "monitoring-fips.us-east-2.api.aws ec2-fips.us-east-2.api.aws ecr-fips.us-east-2.api.aws " +
			"ecs-fips.us-east-2.api.aws lambda-fips.us-east-2.api.aws sqs-fips.us-east-2.api.aws ssm-fips.us-east-2.api.aws",
		"us-gov-west-1 fips": "monitoring.us-gov-west-1.amazonaws.com ec2.us-gov-west-1.amazonaws.com " +
			"api.ecr-fips.us-gov-west-1.amazonaws.com ecs-fips.us-gov-west-1.amazonaws.com " +
			"lambda-fips.us-gov-west-1.amazonaws.com sqs.us-gov-west-1.amazonaws.com ssm.us-gov-west-1.amazonaws.com",
		"cn-north-1": "monitoring.cn-north-1.amazonaws.com.cn ec2.cn-north-1.amazonaws.com.cn " +
			"api.ecr.cn-north-1.amazonaws.com.cn ecs.cn-north-1.amazonaws.com.cn lambda.cn-north-1.amazonaws.com.cn " +
			"sqs.cn-north-1.amazonaws.com.cn ssm.cn-north-1.amazonaws.com.cn",
	} {
		region, flags, _ := strings.Cut(settings, " ")
		hosts := []string{}
		for _, of := range []service{
			serviceCloudWatch, serviceEC2, serviceECR, serviceECS, serviceLambda, serviceSQS, serviceSSM,
		} {
			c := newClientWith(t, of, aws.Config{Region: region})
			at, err := c.endpoint(t.Context(), strings.Contains(flags, "fips"), strings.Contains(flags, "dual"))
			if err != nil || at.Scheme != "https" {
				t.Errorf("%s: %v, %v", settings, at, err)
			}
			hosts = append(hosts, at.Host)
		}
		if diff := cmp.Diff(strings.Fields(want), hosts); diff != "" {
			t.Errorf("%s: %s", settings, diff)
		}
	}
}

// The environment and the profile choose endpoints of these services as of others.
func TestClientFollowsTheEnvironment(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(profile, []byte(
		"[default]\nservices = ours\n[services ours]\necs =\n  endpoint_url = http://profile.test\n",
	), 0o600); err != nil {
		t.Fatal(err)
	}

	for want, variables := range map[string]string{
		"https://ecs.eu-west-1.amazonaws.com/":      "",
		"https://ecs-fips.eu-west-1.amazonaws.com/": "AWS_USE_FIPS_ENDPOINT=true",
		"https://ecs.eu-west-1.api.aws/":            "AWS_USE_DUALSTACK_ENDPOINT=true",
		"http://all.test/":                          "AWS_ENDPOINT_URL=http://all.test AWS_CONFIG_FILE=" + profile,
		"http://ecs.test/base":                      "AWS_ENDPOINT_URL=http://all.test AWS_ENDPOINT_URL_ECS=http://ecs.test/base",
		"http://profile.test/":                      "AWS_CONFIG_FILE=" + profile,
		"https://ecs.us-east-1.amazonaws.com/": "AWS_REGION=us-east-1 AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true " +
			"AWS_ENDPOINT_URL_ECS=http://ecs.test",
	} {
		t.Run(want, func(t *testing.T) {
			for _, pair := range append(strings.Fields(
				"AWS_REGION=eu-west-1 AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_CONFIG_FILE=none "+
					"AWS_SHARED_CREDENTIALS_FILE=none",
			), strings.Fields(variables)...) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			a := &answers{with: []answer{{200, `{"taskArns":["a"],"nextToken":"n"}`, nil}}}
			cfg, err := config.LoadDefaultConfig(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cfg.HTTPClient = a
			arns, next, err := newClientWith(t, serviceECS, cfg).listTasks(t.Context(), taskFilter{Cluster: "c"})
			if err != nil || len(arns) != 1 || next != "n" {
				t.Errorf("%v, %q, %v", arns, next, err)
			}
			if got := a.sent[0].URL.String(); got != want {
				t.Errorf("sent to %s", got)
			}
		})
	}
}

func TestClientRequests(t *testing.T) {
	a := &answers{with: []answer{{200, "<R><V>1</V></R>", nil}, {200, `{"V":1}`, nil}}}
	for _, one := range []struct {
		of           service
		call         func(*client, any) error
		url, content string
		target, body string
	}{
		{serviceEC2, func(c *client, out any) error {
			return c.submit(t.Context(), "Op", url.Values{"Name": {"a b"}}, out)
		}, "/", "application/x-www-form-urlencoded; charset=utf-8", "", "Action=Op&Name=a+b&Version=2016-11-15"},
		{serviceSSM, func(c *client, out any) error {
			return c.call(t.Context(), "Op", map[string]int{"n": 1}, out)
		}, "/", "application/x-amz-json-1.1", "AmazonSSM.Op", `{"n":1}`},
		{serviceLambda, func(c *client, out any) error {
			return c.get(t.Context(), "Op", functionPath("a/b:c"), url.Values{"q": {"1"}}, out)
		}, "/2015-03-31/functions/a%2Fb:c?q=1", "", "", ""},
	} {
		var out struct{ V int }
		if err := one.call(newTestClient(t, one.of, a), &out); err != nil || out.V != 1 {
			t.Fatalf("%s: %+v, %v", one.of.id, out, err)
		}
		r, body := a.sent[len(a.sent)-1], a.bodies[len(a.sent)-1]
		got := []string{r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("X-Amz-Target"), body}
		if diff := cmp.Diff([]string{one.url, one.content, one.target, one.body}, got); diff != "" {
			t.Errorf("%s: %s", one.of.id, diff)
		}
		for field, part := range map[string]string{
			"Authorization": "/eu-west-1/" + one.of.name + "/aws4_request", "User-Agent": "aws-sdk-go-v2/",
			"Amz-Sdk-Request": "attempt=1; max=10", "Amz-Sdk-Invocation-Id": "-",
		} {
			if !strings.Contains(r.Header.Get(field), part) {
				t.Errorf("%s: %s is %q, want %s", one.of.id, field, r.Header.Get(field), part)
			}
		}
		if r.ContentLength != int64(len(body)) {
			t.Errorf("%s: length %d of %q", one.of.id, r.ContentLength, body)
		}
	}
}

func TestClientErrors(t *testing.T) {
	for _, one := range []struct {
		of     service
		with   answer
		code   string
		denied bool
	}{
		{serviceECS, answer{400, `{"__type":"com.amazonaws.ecs#ClusterNotFoundException"}`, nil}, "ClusterNotFoundException", false},
		{serviceECS, answer{400, `{"code":"A","Message":"m"}`, []string{"X-Amzn-Errortype: B:http://x"}}, "B", false},
		{serviceECS, answer{403, ``, nil}, "UnknownError", false},
		{serviceLambda, answer{403, `{"Message":"m"}`, []string{"X-Amzn-ErrorType: AccessDeniedException"}}, "AccessDeniedException", true},
		{serviceECS, answer{404, `<html>`, nil}, "", false},
		{serviceEC2, answer{400, `<Response><Errors><Error><Code>A</Code></Error></Errors></Response>`, nil}, "A", false},
		{
			serviceCloudWatch,
			answer{403, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>m</Message></Error></ErrorResponse>`, nil},
			"AccessDenied", true,
		},
	} {
		c := newTestClient(t, one.of, &answers{with: []answer{one.with}})
		err := c.submit(t.Context(), "Op", url.Values{}, nil)
		if of := one.of; of.target != "" || of == serviceLambda {
			err = c.call(t.Context(), "Op", nil, nil)
		}
		if errorCode(err) != one.code || isDenied(err) != one.denied || httpStatus(err) == 0 {
			t.Errorf("%v, want %s", err, one.code)
		}
		if want := "operation error " + one.of.id + ": Op, https response error StatusCode: "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestClientRetries(t *testing.T) {
	throttled := answer{400, `{"__type":"ThrottlingException","message":"slow down"}`, nil}
	down, fine := answer{503, `<html>`, nil}, answer{200, `{}`, nil}

	for name, one := range map[string]struct {
		with []answer
		sent int
		says string
	}{
		"throttled":      {[]answer{throttled, throttled, fine}, 3, ""},
		"down":           {[]answer{down, fine}, 2, ""},
		"never better":   {[]answer{throttled}, 10, "exceeded maximum number of attempts, 10, "},
		"not acceptable": {[]answer{{400, `{"__type":"ClientException"}`, nil}}, 1, "ClientException"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answers{with: one.with}
				err := newTestClient(t, serviceECS, a).call(t.Context(), "Op", nil, nil)
				if (err == nil) != (one.says == "") || err != nil && !strings.Contains(err.Error(), one.says) {
					t.Errorf("%v, want %q", err, one.says)
				}
				if len(a.sent) != one.sent {
					t.Errorf("%d requests, want %d", len(a.sent), one.sent)
				}
			})
		})
	}
}

// The settings of the caller win over those for a deployment.
func TestClientRetriesAsConfigured(t *testing.T) {
	for _, mode := range []aws.RetryMode{aws.RetryModeStandard, aws.RetryModeAdaptive} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{with: []answer{{503, "", nil}}}
			c := newClientWith(t, serviceECS, aws.Config{
				Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
				HTTPClient: a, RetryMaxAttempts: 2, RetryMode: mode,
			})
			if err := c.call(t.Context(), "Op", nil, nil); err == nil || len(a.sent) != 2 {
				t.Errorf("%s: %v after %d requests, want 2", mode, err, len(a.sent))
			}
		})
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := &answers{with: []answer{{503, "", nil}}, then: cancel}
	err := newTestClient(t, serviceECS, a).call(ctx, "Op", nil, nil)
	if !errors.Is(err, context.Canceled) || len(a.sent) != 1 {
		t.Errorf("%v after %d requests", err, len(a.sent))
	}
}

// A machine whose clock is wrong signs with the time of the service.
func TestClientCorrectsItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := []string{"Date: " + time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}
		a := &answers{with: []answer{{403, `{"__type":"InvalidSignatureException"}`, date}, {200, `{}`, date}}}
		c := newTestClient(t, serviceECS, a)
		for range 2 {
			if err := c.call(t.Context(), "Op", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, skew := range []time.Duration{0, time.Hour, time.Hour} {
			signed, err := time.Parse("20060102T150405Z", a.sent[i].Header.Get("X-Amz-Date"))
			if off := time.Until(signed) - skew; err != nil || off.Abs() > time.Minute {
				t.Errorf("request %d is signed with %v (%v), want %v from now", i, signed, err, skew)
			}
		}
	})
}

func TestClientWithoutCredentials(t *testing.T) {
	a := &answers{with: []answer{{200, "{}", nil}}}
	c := newTestClient(t, serviceECS, a)
	for _, none := range []aws.CredentialsProvider{nil, aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no profile") },
	)} {
		c.cfg.Credentials = none
		err := explain(c.call(t.Context(), "Op", nil, nil))
		if !strings.HasPrefix(err.Error(), "no AWS credentials; ") || len(a.sent) > 0 {
			t.Errorf("%v after %d requests", err, len(a.sent))
		}
	}
}
