package dynamo_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// replaceUpdates sends requests, and replaces the bodies of replies to updates
// while body is set.
type replaceUpdates struct {
	http.RoundTripper
	body atomic.Pointer[string]
}

func (r *replaceUpdates) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.RoundTripper.RoundTrip(req)
	body := r.body.Load()
	if err != nil || body == nil || dynamotest.Operation(req.Header) != update {
		return res, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	res.Body, res.ContentLength = io.NopCloser(strings.NewReader(*body)), int64(len(*body))
	res.Header.Del("Content-Length")
	return res, nil
}

// A reply without the bucket says nothing about the debit: the call fails, and the
// process goes on.
func TestReplyWithoutTheBucketIsNoAdmission(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no item":        `{}`,
		"empty item":     `{"Attributes":{}}`,
		"no refill time": `{"Attributes":{"PK":{"S":"x"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			table := dynamotest.NewTable(t)
			transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
			t.Cleanup(transport.CloseIdleConnections)
			replies := &replaceUpdates{RoundTripper: transport}
			cfg := dynamotest.Config(dynamotest.Endpoint(t))
			cfg.HTTPClient = &http.Client{Transport: replies}
			repo := dynamotest.Connect(t, table, &dynamo.Options{AWS: cfg})
			setDefaults(t, repo, limiter.PerMinute("rpm", 100))
			must(t,
				repo.CreateEntity(t.Context(), limiter.Entity{ID: "parent", CreatedAt: start},
					auditEvent("entity_created")))
			createChild(t, repo, "alice", "parent")
			consume(t, repo, 0, chargeOf("alice", 1), true)
			replies.body.Store(&body)
			if _, err := repo.Consume(t.Context(), at(0), chargeOf("alice", 1)); err == nil {
				t.Error("the call is admitted")
			}
			replies.body.Store(nil)
			consume(t, repo, 0, chargeOf("alice", 1), true)
		})
	}
}
