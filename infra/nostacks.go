package infra

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// noStacksError reports that the endpoint serves no CloudFormation. DynamoDB
// Local is such: it answers a call of CloudFormation with an internal failure,
// which the SDK would retry for two minutes.
type noStacksError struct {
	at     string // the endpoint
	advice string // what to do in place of the call
}

// Error says where, and what to do.
func (e *noStacksError) Error() string {
	return fmt.Sprintf("there is no CloudFormation at %s, so no stack; %s", e.at, e.advice)
}

// RetryableError is false: what serves no CloudFormation now never does.
func (e *noStacksError) RetryableError() bool { return false }

// onlyStacks fails a call whose answer is not that of CloudFormation.
func (s *session) onlyStacks(o *cloudformation.Options) {
	check := middleware.DeserializeMiddlewareFunc("OnlyStacks", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error,
	) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		answer, ok := out.RawResponse.(*smithyhttp.Response)
		if err == nil && ok && s.isForeign(answer) {
			err = &noStacksError{s.place.Endpoint, s.withoutStacks()}
			if asked, ok := in.Request.(*smithyhttp.Request); ok && s.place.Endpoint == "" {
				err = &noStacksError{asked.URL.Host, s.withoutStacks()}
			}
		}
		return out, metadata, err
	})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(check, middleware.After) // next to the wire
	})
}

// isForeign reports whether an answer is not that of CloudFormation, which
// speaks XML. The errors of a load balancer before AWS may be anything but JSON,
// and pass.
func (s *session) isForeign(answer *smithyhttp.Response) bool {
	kind := answer.Header.Get("Content-Type")
	if s.place.Endpoint == "" {
		return strings.Contains(kind, "json")
	}
	return !strings.Contains(kind, "xml")
}

// withoutStacks is what to do where there is no CloudFormation.
func (s *session) withoutStacks() string {
	name := s.name
	if name == "" {
		name = "NAME"
	}
	table := func(verb string) string { return s.place.Command("table", verb, name) }
	switch s.op {
	case "upgrade":
		return table("migrate") + " migrates a table without a stack"
	case "delete":
		return table("delete") + " deletes a table without a stack"
	}
	return table("create") + " makes a table without a stack"
}

// adviseTable changes the advice of an error that there is no CloudFormation
// where the table is there already: it needs no stack to limit.
func (s *session) adviseTable(ctx context.Context, err error) error {
	none, ok := errors.AsType[*noStacksError](err)
	if !ok || !s.hasTable(ctx) {
		return err
	}
	return &noStacksError{none.at, fmt.Sprintf("table %s exists there and limits without one: %s shows it, and commands about data use it, such as %s",
		s.name, s.place.Command("status", "--name", s.name), s.place.Command("resource", "list", "--name", s.name))}
}

// hasTable reports whether the table is there and complete.
func (s *session) hasTable(ctx context.Context) bool {
	repo, err := s.table(ctx)
	if err != nil {
		return false
	}
	_, err = repo.Version(ctx)
	return errors.Join(err, repo.Close()) == nil
}
