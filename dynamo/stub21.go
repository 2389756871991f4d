package dynamo

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

var errStub = errors.New("not implemented")

func (*Repository) SetSwitch(context.Context, limiter.Switch, limiter.AuditEvent) error { return errStub }
func (*Repository) DeleteSwitch(context.Context, limiter.Scope, limiter.AuditEvent) error { return errStub }
func (*Repository) Switches(context.Context) iter.Seq2[limiter.Switch, error] {
	return func(yield func(limiter.Switch, error) bool) { yield(limiter.Switch{}, errStub) }
}
func (*Repository) LastSwitch(string, string) *limiter.Switch { return nil }
func (*Repository) Fill(context.Context, time.Time, limiter.Fill, limiter.AuditEvent) (bool, error) { return false, errStub }

