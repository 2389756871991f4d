package infra

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// LoadWorker invokes the worker function of a load stack.
type LoadWorker struct {
	s        *session
	function string
	timeout  time.Duration
	runs     *client // waits as long as the function runs, and never retries
}

// FindLoadWorker returns the worker function of the load stack of a limiter. It
// returns limiter.ErrNotFound if there is none.
func FindLoadWorker(ctx context.Context, name string, opts *Options) (*LoadWorker, error) {
	s, err := newTestSession(ctx, "find the worker function", name, opts)
	if err != nil {
		return nil, err
	}

	w := &LoadWorker{s: s, function: loadFunction(s.name)}
	var out struct{ Timeout int }
	err = s.functions.get(ctx, "GetFunctionConfiguration", functionPath(w.function)+"/configuration", nil, &out)
	if isMissingFunction(err) {
		deploy := s.remedy(remedy.DeployLoad, s.name)
		return nil, remedy.With(fmt.Errorf("function %q: %w; %v creates it", w.function, limiter.ErrNotFound, deploy),
			deploy)
	}

	if err != nil {
		return nil, translateError(ctx, s.op, err)
	}

	w.timeout = time.Duration(out.Timeout) * time.Second
	cfg, err := s.config(ctx)
	if err != nil {
		return nil, translateError(ctx, s.op, err)
	}

	w.runs = s.newPatientClient(ctx, cfg, w.timeout)
	return w, nil
}

// functionPath returns the path of a function in Lambda.
func functionPath(name string) string { return "/2015-03-31/functions/" + url.PathEscape(name) }

// isMissingFunction reports whether err says that a function does not exist.
func isMissingFunction(err error) bool { return errorCode(err) == "ResourceNotFoundException" }

// newTestSession returns a session for the stack that a load stack tests.
func newTestSession(ctx context.Context, op, name string, opts *Options) (*session, error) {
	if err := checkLoadName(dynamo.TableName(name)); err != nil {
		return nil, err
	}
	return newStackSession(ctx, op, name, opts)
}

// LoadWorkerByName returns a worker function without looking it up, for a caller
// that only starts workers.
func LoadWorkerByName(ctx context.Context, function string, opts *Options) (*LoadWorker, error) {
	s, err := newSession(ctx, "start a worker", opts)
	if err != nil {
		return nil, err
	}
	return &LoadWorker{s: s, function: function}, nil
}

// Timeout returns the timeout of the function.
func (w *LoadWorker) Timeout() time.Duration { return w.timeout }

// readReserve is how much longer than its timeout a function may take to respond.
const readReserve = 30 * time.Second

// newPatientClient returns a client that waits for a function with this timeout. It
// never retries, because a second invocation would generate the load again.
func (s *session) newPatientClient(ctx context.Context, cfg aws.Config, timeout time.Duration) *client {
	// The transport of the session waits 30 s for the first byte of a response,
	// and a function sends none before it ends.
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		cfg.HTTPClient = client.WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = timeout + readReserve
		})
	}

	c := s.newClient(ctx, serviceLambda, cfg)
	c.retryer = retry.AddWithMaxAttempts(aws.NopRetryer{}, 1)
	// At a custom endpoint, too, the first response may take that long.
	c.options = cfg.APIOptions
	return c
}

// LoadFunctionError reports that the worker function failed.
type LoadFunctionError struct {
	Function string
	Message  string // its error
}

// Error returns the function and its error.
func (e *LoadFunctionError) Error() string {
	return fmt.Sprintf("function %q failed: %s", e.Function, e.Message)
}

// Run invokes the function and returns its response. It waits until the function
// ends, for its timeout and 30 s at most. The function continues when ctx ends.
func (w *LoadWorker) Run(ctx context.Context, request []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, w.timeout+readReserve)
	defer cancel()
	header, response, err := w.invoke(limited, w.runs, request, nil)
	if err != nil {
		return nil, translateError(ctx, "invoke "+w.function, err)
	}

	// Lambda answers 200 for a function that failed, so its own field reports
	// the failure.
	if header.Get("X-Amz-Function-Error") != "" {
		return nil, &LoadFunctionError{w.function, functionMessage(response)}
	}
	return response, nil
}

// invoke sends an invocation with more fields in its header, and returns the response.
func (w *LoadWorker) invoke(
	ctx context.Context, c *client, request []byte, more map[string]string,
) (header http.Header, response []byte, err error) {
	m := &message{
		method: http.MethodPost, path: functionPath(w.function) + "/invocations", body: request,
		header: map[string]string{"Content-Type": "application/octet-stream"}, failed: jsonError,
	}
	maps.Copy(m.header, more)
	m.read = func(h http.Header, content []byte) error {
		header, response = h, content
		return nil
	}

	err = c.send(ctx, "Invoke", m)
	return header, response, err
}

// functionMessage returns the message in the response of a function that failed.
func functionMessage(response []byte) string {
	var failure struct{ ErrorMessage string }
	if json.Unmarshal(response, &failure) == nil && failure.ErrorMessage != "" {
		return failure.ErrorMessage
	}
	return string(response)
}

// Start invokes the function without waiting for its end. It returns the ID of the
// request, which the function sees, too.
func (w *LoadWorker) Start(ctx context.Context, request []byte) (id string, err error) {
	header, _, err := w.invoke(ctx, w.s.functions, request, map[string]string{"X-Amz-Invocation-Type": "Event"})
	if err != nil {
		return "", translateError(ctx, "invoke "+w.function, err)
	}
	return header.Get("X-Amzn-Requestid"), nil
}

// loadFunction returns the name of the worker function of a limiter.
func loadFunction(name string) string { return LoadName(name) + workerSuffix }

// loadMaster returns the name of the service and of the task family of the master.
func loadMaster(name string) string { return LoadName(name) + masterSuffix }
