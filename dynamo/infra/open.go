package infra

import (
	"context"
	"errors"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Open connects to the table of a stack, and creates the stack and the namespace
// first if they do not exist. It does not update an existing stack: only [Deploy]
// does. If nothing is missing, Open makes the same requests as [dynamo.Connect] and
// needs no more permissions.
//
// It returns the errors of Deploy and of dynamo.Connect.
func Open(ctx context.Context, name string, opts *Options) (*dynamo.Repository, error) {
	if opts == nil {
		opts = &Options{}
	}

	repo, err := dynamo.Connect(ctx, name, &opts.Dynamo)
	if !errors.Is(err, limiter.ErrNotFound) {
		return repo, err
	}

	if err := Ensure(ctx, name, opts); err != nil {
		return nil, err
	}

	return dynamo.Connect(ctx, name, &opts.Dynamo)
}

// Ensure creates what Open needs, if it does not exist: the stack, the version record
// and the namespace. It waits even with NoWait, because it writes to the table.
func Ensure(ctx context.Context, name string, opts *Options) error {
	s, err := newDeploySession(ctx, "open", name, opts)
	if err != nil {
		return err
	}

	// The records are written to the table, which does not exist before the end
	// of the creation.
	s.opts.NoWait = false
	return translateError(ctx, "open", s.ensure(ctx))
}

// ensure creates the stack if there is no table, and initializes the table.
func (s *session) ensure(ctx context.Context) error {
	repo, err := s.table(ctx)
	if errors.Is(err, limiter.ErrNotFound) {
		if err = s.ensureStack(ctx); err == nil {
			repo, err = s.table(ctx)
		}
	}

	if err != nil {
		return err
	}

	return errors.Join(s.initTable(ctx, repo), repo.Close())
}

// ensureStack creates the stack, or waits until another caller has created it.
func (s *session) ensureStack(ctx context.Context) error {
	// A stack that another caller has created is not updated here, only
	// checked.
	_, err := s.run(ctx, plan{s.create, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		return s.deployment(stack, "unchanged"), s.checkTable(ctx, stack)
	}})
	return err
}

// initTable creates the version record and the namespace if they do not exist. The
// namespace comes last, because Open checks nothing else.
func (s *session) initTable(ctx context.Context, repo *dynamo.Repository) error {
	_, err := repo.Version(ctx)
	if errors.Is(err, limiter.ErrNotFound) {
		err = repo.RecordDeployment(ctx, s.opts.Now(), "client:"+s.opts.Version)
	}
	if err != nil {
		return err
	}
	_, err = s.registerNamespace(ctx, repo)
	return err
}
