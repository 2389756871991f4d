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

// Wire is an HTTP client whose requests a test can intercept.
type Wire struct {
	next     aws.HTTPClient
	tamper   atomic.Pointer[func(c *Call) (*http.Response, error)]
	PageSize atomic.Int64 // maximum number of items in a page of a query, if set
}

// Call is an intercepted request.
type Call struct {
	Op   string // such as GetItem
	Body string
	Send func() (*http.Response, error)
}

// Do sends a request, or calls the interceptor.
func (w *Wire) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}

	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")

	// Without a page size, a test would need a megabyte of items for a second
	// page.
	if n := w.PageSize.Load(); n > 0 && op == "Query" {
		body = bytes.Replace(body, []byte("{"), fmt.Appendf(nil, `{"Limit":%d,`, n), 1)
		req.ContentLength = int64(len(body))
	}

	call := &Call{Op: op, Body: string(body), Send: func() (*http.Response, error) {
		// Each call of Send needs a body of its own.
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return w.next.Do(again)
	}}

	if tamper := w.tamper.Load(); tamper != nil {
		return (*tamper)(call)
	}
	return call.Send()
}

// Intercept sends later requests through tamper; nil ends that.
func (w *Wire) Intercept(tamper func(c *Call) (*http.Response, error)) {
	if tamper == nil {
		w.tamper.Store(nil)
		return
	}
	w.tamper.Store(&tamper)
}

// Before runs work once, before the first request that match accepts.
func (w *Wire) Before(match func(c *Call) bool, work func()) {
	var done atomic.Bool
	w.Intercept(func(c *Call) (*http.Response, error) {
		if match(c) && done.CompareAndSwap(false, true) {
			work()
		}
		return c.Send()
	})
}

// Respond returns a response with a JSON body.
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
