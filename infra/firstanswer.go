package infra

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go/middleware"
)

// longestFirstAnswer is how long a custom endpoint may take to begin its first
// answer for a service. An emulator answers at once; an address where something
// else listens may never do.
const longestFirstAnswer = 8 * time.Second

// silentError reports that a custom endpoint did not answer.
type silentError struct {
	at       string // the endpoint
	service  string
	accepted bool   // it took the connection
	advice   string // what to do in place of the call, "" for nothing
}

// Error says where, and what to do.
func (e *silentError) Error() string {
	did := "accepted no connection"
	if e.accepted {
		did = "accepted the connection but did not answer"
	}
	text := fmt.Sprintf("%s %s within %v; check that %s is there", e.at, did, longestFirstAnswer, e.service)
	if e.advice != "" {
		text += ", or do without it: " + e.advice
	}
	return text
}

// RetryableError is false: the next attempt would be as long.
func (e *silentError) RetryableError() bool { return false }

// promptly adds to the options of a client that a custom endpoint has to begin
// its first answer within longestFirstAnswer. Later answers may take longer: an
// emulator may build a whole stack before it answers. AWS itself is not hurried.
func (s *session) promptly(options []func(*middleware.Stack) error, endpoint *string) []func(*middleware.Stack) error {
	if endpoint == nil {
		return options
	}
	answered := new(atomic.Bool)
	hurry := middleware.DeserializeMiddlewareFunc("FirstAnswer", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error,
	) {
		if answered.Load() {
			return next.HandleDeserialize(ctx, in)
		}
		service := awsmiddleware.GetServiceID(ctx)
		if s.isMute(*endpoint) {
			return middleware.DeserializeOutput{}, middleware.Metadata{}, s.silence(service, *endpoint, true)
		}
		var accepted atomic.Bool
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(longestFirstAnswer, cancel)
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { accepted.Store(true) }})
		out, metadata, err := next.HandleDeserialize(ctx, in)
		switch late := !timer.Stop(); {
		case err == nil: // and not canceled: the body has yet to be read
			answered.Store(true)
			s.voices.Store(*endpoint, true)
		case late:
			s.voices.LoadOrStore(*endpoint, false)
			err = s.silence(service, *endpoint, accepted.Load())
		default:
			cancel()
		}
		return out, metadata, err
	})
	return append(options, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(hurry, middleware.After) // next to the wire
	})
}

// isMute reports whether an endpoint has kept a call waiting and has answered
// none. Another call would wait as long.
func (s *session) isMute(endpoint string) bool {
	answered, asked := s.voices.Load(endpoint)
	return asked && answered == false
}

// silence is the error of a service that does not answer at an endpoint.
func (s *session) silence(service, endpoint string, accepted bool) *silentError {
	e := &silentError{at: endpoint, service: service, accepted: accepted}
	if service == cloudformation.ServiceID {
		e.advice = s.withoutStacks()
	}
	return e
}
