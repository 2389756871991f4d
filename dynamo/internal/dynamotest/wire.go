package dynamotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// wire is the connection to the engine, on which a test may listen, or cut in.
type Wire struct {
	next     aws.HTTPClient
	tamper   atomic.Pointer[func(c *Call) (*http.Response, error)]
	PageSize atomic.Int64 // if set, the most items in a page of a query
}

// wireCall is one request.
type Call struct {
	Op   string // such as GetItem
	Body string
	Send func() (*http.Response, error)
}

// Do sends a request, or does what the test wants instead.
func (w *Wire) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	if n := w.PageSize.Load(); n > 0 && op == "Query" {
		body = bytes.Replace(body, []byte("{"), fmt.Appendf(nil, `{"Limit":%d,`, n), 1)
		req.ContentLength = int64(len(body))
	}
	call := &Call{Op: op, Body: string(body), Send: func() (*http.Response, error) {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return w.next.Do(again)
	}}
	if tamper := w.tamper.Load(); tamper != nil {
		return (*tamper)(call)
	}
	return call.Send()
}

// cut makes all requests go through tamper from now on; nil ends that.
func (w *Wire) Intercept(tamper func(c *Call) (*http.Response, error)) {
	if tamper == nil {
		w.tamper.Store(nil)
		return
	}
	w.tamper.Store(&tamper)
}

// before runs work once, before the first request that match accepts is sent.
func (w *Wire) Before(match func(c *Call) bool, work func()) {
	var done atomic.Bool
	w.Intercept(func(c *Call) (*http.Response, error) {
		if match(c) && done.CompareAndSwap(false, true) {
			work()
		}
		return c.Send()
	})
}

// answer is a reply of the engine, made up.
func Respond(t *testing.T, v any) (*http.Response, error) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
