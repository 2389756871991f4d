package infra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// LoadWorker invokes the worker function of a load stack.
type LoadWorker struct {
	s        *session
	function string
	timeout  time.Duration
	runs     *lambda.Client // waits as long as the function runs, and never retries
}

// FindLoadWorker returns the worker function of the load stack of a limiter. It
// returns limiter.ErrNotFound if there is none.
func FindLoadWorker(ctx context.Context, name string, opts *Options) (*LoadWorker, error) {
	s, err := newTestSession(ctx, "find the worker function", name, opts)
	if err != nil {
		return nil, err
	}

	w := &LoadWorker{s: s, function: loadFunction(s.name)}
	out, err := s.functions.GetFunctionConfiguration(ctx,
		&lambda.GetFunctionConfigurationInput{FunctionName: &w.function})
	if _, missing := errors.AsType[*lambdatypes.ResourceNotFoundException](err); missing {
		deploy := s.remedy(remedy.DeployLoad, s.name)
		return nil, remedy.With(fmt.Errorf("function %q: %w; %v creates it", w.function, limiter.ErrNotFound, deploy),
			deploy)
	}

	if err != nil {
		return nil, translateError(ctx, s.op, err)
	}

	w.timeout = time.Duration(aws.ToInt32(out.Timeout)) * time.Second
	cfg, err := s.config(ctx)
	if err != nil {
		return nil, translateError(ctx, s.op, err)
	}

	w.runs = patientClient(cfg, w.timeout)
	return w, nil
}

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

// patientClient returns a client that waits for a function with this timeout. It
// never retries, because a second invocation would generate the load again.
func patientClient(cfg aws.Config, timeout time.Duration) *lambda.Client {
	// The transport of the session waits 30 s for the first byte of a response,
	// and a function sends none before it ends.
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		cfg.HTTPClient = client.WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = timeout + readReserve
		})
	}
	return lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.Retryer = retry.AddWithMaxAttempts(aws.NopRetryer{}, 1)
	})
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
	out, err := w.runs.Invoke(limited, &lambda.InvokeInput{FunctionName: &w.function, Payload: request})
	if err != nil {
		return nil, translateError(ctx, "invoke "+w.function, err)
	}

	// Lambda answers 200 for a function that failed, so its own field reports
	// the failure.
	if out.FunctionError != nil {
		return nil, &LoadFunctionError{w.function, functionMessage(out.Payload)}
	}
	return out.Payload, nil
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
	out, err := w.s.functions.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &w.function, Payload: request, InvocationType: lambdatypes.InvocationTypeEvent,
	})
	if err != nil {
		return "", translateError(ctx, "invoke "+w.function, err)
	}
	id, _ = awsmiddleware.GetRequestIDMetadata(out.ResultMetadata)
	return id, nil
}

// loadFunction returns the name of the worker function of a limiter.
func loadFunction(name string) string { return LoadName(name) + workerSuffix }

// loadMaster returns the name of the service and of the task family of the master.
func loadMaster(name string) string { return LoadName(name) + masterSuffix }
