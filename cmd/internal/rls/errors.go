package rls

import (
	"errors"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
)

// fail reports an error and returns it with a gRPC status and without details.
func (s *Service) fail(err error) error {
	s.report(withoutTarget(err))
	return grpclimit.Error(err)
}

// withoutTarget returns err without the entity of an outage, which may be a
// secret.
func withoutTarget(err error) error {
	if outage, ok := errors.AsType[*limiter.UnavailableError](err); ok {
		return &limiter.UnavailableError{Op: outage.Op, Err: outage.Err}
	}
	return err
}
