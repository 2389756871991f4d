package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

var errStub = errors.New("not implemented")

// Fill is not implemented.
func (*Repository) Fill(context.Context, time.Time, limiter.Fill, limiter.AuditEvent) (bool, error) {
	return false, errStub
}
