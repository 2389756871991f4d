package infra_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/function"
)

// functionVariable makes a process of this test program a Lambda function.
const functionVariable = "ZAEL_TEST_FUNCTION"

// TestFunction is one, in a process that invoke started.
func TestFunction(*testing.T) {
	if os.Getenv(functionVariable) != "" {
		os.Exit(function.Main(os.Getenv, os.Stdout))
	}
}

// service is what AWS Lambda is for a function: it has one event for it, and
// waits for the answer.
type service struct {
	*httptest.Server
	event    string
	given    atomic.Bool
	answered chan string // "response" or "error", and the answer
}

func newService(w *world) *service {
	s := &service{answered: make(chan string, 2)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", s.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/1/{what}", s.answer)
	mux.HandleFunc("PUT /stack", func(http.ResponseWriter, *http.Request) {}) // where CloudFormation waits for its answer
	s.Server = httptest.NewServer(mux)
	w.Cleanup(s.Close)
	return s
}

func (s *service) next(out http.ResponseWriter, r *http.Request) {
	if s.given.Swap(true) {
		<-r.Context().Done()
		return
	}
	out.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
	out.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(5*time.Minute).UnixMilli()))
	_, _ = io.WriteString(out, s.event)
}

func (s *service) answer(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	out.WriteHeader(http.StatusAccepted)
	if err != nil {
		body = []byte(err.Error())
	}
	s.answered <- r.PathValue("what") + " " + string(body)
}

// invoke has a function of the template handle an event, in which {answer} is
// where CloudFormation waits. The function is a process that was just started,
// and has the environment that the template gives it. What it sends to AWS is
// recorded. Its answer has to hold what is wanted.
func (w *world) invoke(id, event, want string) {
	w.Helper()
	s := newService(w)
	s.event = strings.ReplaceAll(event, "{answer}", s.URL+"/stack")
	ctx, stop := context.WithCancel(w.Context())
	var log bytes.Buffer
	process := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestFunction$", "-test.count", "1")
	process.Env = append(w.environment(id), functionVariable+"=1", "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(s.URL, "http://"))
	process.Stdout, process.Stderr = &log, &log
	w.ok(process.Start())
	ended := make(chan struct{})
	go func() {
		err := process.Wait()
		s.answered <- fmt.Sprint("no answer: ", err)
		close(ended)
	}()
	got := <-s.answered
	stop()
	<-ended
	if !strings.HasPrefix(got, "response ") || !strings.Contains(got+log.String(), want) {
		w.Fatalf("%s: %s, want %s\n%s\n%s", id, got, want, event, &log)
	}
}

// environment is what the template gives a function, with the table of this
// world, and services behind the recorder.
func (w *world) environment(id string) (all []string) {
	w.Helper()
	variables, _ := at(everything(w.T, "app").resources()[id], "Environment", "Variables").(tree)
	for name, value := range variables {
		if name != "TABLE_NAME" {
			all = append(all, name+"="+text(value))
		}
	}
	return append(all,
		"TABLE_NAME="+w.table, "AWS_ENDPOINT_URL="+w.recorded(w.engine), "AWS_ENDPOINT_URL_S3="+w.recorded(w.archive.URL()),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
}

// recorded is an address whose requests are recorded on their way to another.
func (w *world) recorded(address string) string {
	w.Helper()
	to, err := url.Parse(address)
	w.ok(err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: &w.recorder,
	})
	w.Cleanup(server.Close)
	return server.URL
}
