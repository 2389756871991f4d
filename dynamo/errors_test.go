package dynamo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// TestWriteResults sends a write with the real client to servers that fail in
// every way, and checks the result.
func TestWriteResults(t *testing.T) {
	t.Parallel()
	static := credentials.NewStaticCredentialsProvider("a", "b", "")
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("none")
	})
	for _, c := range []struct {
		name, url   string
		credentials aws.CredentialsProvider
		want        writeResult
		retryable   bool
	}{
		{"connection refused", closedPort, static, notExecuted, true},
		{"no such host", "http://no-such-host.invalid:1", static, notExecuted, true},
		{"500", replying(t, 500, `{"__type":"InternalServerError"}`), static, unknown, false},
		{"503", replying(t, 503, ""), static, unknown, false},
		{"408", replying(t, 408, `{"__type":"RequestTimeout"}`), static, unknown, false},
		{"throttled", replying(t, 400, `{"__type":"ThrottlingException"}`), static, notExecuted, true},
		{"in progress", replying(t, 400, `{"__type":"TransactionInProgressException"}`), static, unknown, false},
		{"denied", replying(t, 400, `{"__type":"AccessDeniedException"}`), static, notExecuted, false},
		{"no JSON", replying(t, 200, `{"Attributes":`), static, unknown, false},
		{"no credentials", closedPort, none, notExecuted, false},
		{"no answer in time", silent(t), static, unknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := aws.Config{Region: "us-east-1", Credentials: c.credentials, BaseEndpoint: &c.url}
			client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if c.name == "no answer in time" {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: aws.String("table"), Key: key{"a", "b"}.at(),
			})
			if got := resultOf(err); err == nil || got != c.want || got == notExecuted &&
				retryable(err) != c.retryable {
				t.Errorf("result %d, retryable %v, want %d and %v: %v", got, retryable(err), c.want, c.retryable, err)
			}
		})
	}
}

// closedPort is an address where nothing listens. A port that a test has just
// closed may be another test's by now.
const closedPort = "http://127.0.0.1:1"

// replying returns the URL of a server with a fixed response.
func replying(t *testing.T, status int, body string) string {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// silent returns the URL of a server that answers only after its client has gone.
func silent(t *testing.T) string {
	t.Helper()
	return serving(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after it has read the body
		<-r.Context().Done()
	})
}

// serving starts a server and returns its URL.
func serving(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
