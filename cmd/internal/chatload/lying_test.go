package chatload_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/chatload"
)

// answer returns a handler that answers with a status and a body.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// takeBody reads the body of a request, so that the server sees its client leave.
func takeBody(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		next(w, r)
	}
}

func reports(total string) string { return `{"usage":{"total_tokens":` + total + `}}` }

// If no call succeeds, the error names the cause.
func TestRunFailsIfNoCallSucceeds(t *testing.T) {
	const usage = "the answer reports a usage that is not a whole number from 0 to 100,000,000"
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"status 500":     {answer(500, reports("5")), "status 500"},
		"status 201":     {answer(201, reports("5")), "status 201"},
		"redirect":       {answer(302, ""), "status 302"},
		"not JSON":       {answer(200, "<html>"), "the answer is not JSON"},
		"empty":          {answer(200, ""), "the answer is not JSON"},
		"no usage":       {answer(200, "{}"), "the answer reports no usage"},
		"usage a list":   {answer(200, `{"usage":[]}`), "the answer reports no usage"},
		"a list":         {answer(200, `[1]`), "the answer reports no usage"},
		"null":           {answer(200, reports("null")), "the answer reports no usage"},
		"negative":       {answer(200, reports("-5")), usage},
		"absurd":         {answer(200, reports("9223372036854775807")), usage},
		"above 64 bits":  {answer(200, reports("9223372036854775808")), usage},
		"above the most": {answer(200, reports("100000001")), usage},
		"not whole":      {answer(200, reports("1.5")), usage},
		"text":           {answer(200, reports(`"5"`)), usage},
		"long":           {answer(200, strings.Repeat("x", 2<<20)), "the answer is longer than 1 MiB"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
		}, "the answer ends early"},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(c.serve)
			defer web.Close()
			opts := optionsFor(t, web.URL)
			opts.Duration, opts.StopTimeout = time.Millisecond, time.Minute
			got, err := chatload.New(opts).Run(t.Context())
			if !errors.Is(err, chatload.ErrNoSuccess) || !strings.HasSuffix(err.Error(), ": "+c.want) {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(
				map[string]int64{c.want: got.Failed}, got.Failures,
			); diff != "" || got.Calls() != got.Failed || got.Tokens != 0 {
				t.Errorf("%+v: %s", got, diff)
			}
		})
	}
}

// A refusal, or the most tokens, is no failure.
func TestRunAcceptsRefusals(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"refused": answer(429, ""), "none": answer(200, reports("0")),
		"most": answer(200, reports("100000000")),
	} {
		web := httptest.NewServer(serve)
		opts := optionsFor(t, web.URL)
		opts.Duration, opts.StopTimeout = time.Millisecond, time.Minute
		if got, err := chatload.New(opts).Run(t.Context()); err != nil || got.Failed > 0 || got.Calls() == 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		web.Close()
	}
}

// Calls that do not end are cancelled soon after the end of the test, and counted
// apart.
func TestRunCancelsCallsThatDoNotEnd(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"a byte at a time": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000000")
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				<-tick.C
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(takeBody(serve))
			defer web.Close()
			opts := optionsFor(t, web.URL)
			opts.Workers, opts.Duration, opts.StopTimeout = 3, time.Millisecond, 100*time.Millisecond
			got, err := chatload.New(opts).Run(t.Context())
			if !errors.Is(err, chatload.ErrNoSuccess) && !errors.Is(err, chatload.ErrUnreachable) ||
				!strings.Contains(err.Error(), "cancelled") {
				t.Errorf("the error is %v", err)
			}
			if got.Cancelled != 3 || got.Calls() != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// An interrupt before the first answer is no failure of the server.
func TestRunInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	web := httptest.NewServer(takeBody(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer web.Close()
	if got, err := chatload.New(optionsFor(t, web.URL)).Run(ctx); err != nil || got.Cancelled != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// However many causes a server invents, the report has few.
func TestCausesAreFew(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	s := &server{end: end}
	for status := 500; status < 560; status++ {
		s.statuses = append(s.statuses, status)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	got, err := chatload.New(optionsFor(t, web.URL)).Run(ctx)
	if !errors.Is(err, chatload.ErrNoSuccess) || !strings.HasSuffix(err.Error(), ": mostly another cause") {
		t.Errorf("the error is %v", err)
	}
	if len(got.Failures) != 21 || got.Failures["another cause"] != 40 || got.Failed != 60 {
		t.Errorf("%d causes of %d failures: %v", len(got.Failures), got.Failed, got.Failures)
	}
}
