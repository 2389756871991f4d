package infra

import (
	"context"
	"errors"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Open connects to the table of a stack, which it makes first if it is missing,
// with the namespace. What is there stays as it is, whatever Options.Stack says:
// only [Deploy] changes a stack. Where nothing is missing it costs what
// [dynamo.Connect] costs, and needs no more rights.
//
// Errors are those of Deploy and of dynamo.Connect.
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

// Ensure makes what Open needs, and leaves what is there: the stack if its table
// is missing, the version record, the namespace. It waits also with NoWait,
// because nothing can be prepared in a table that is not there.
func Ensure(ctx context.Context, name string, opts *Options) error {
	s, err := dialStack(ctx, "open", name, opts)
	if err != nil {
		return err
	}
	s.opts.NoWait = false
	return failure(ctx, "open", s.ensure(ctx))
}

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
	return errors.Join(s.furnish(ctx, repo), repo.Close())
}

// ensureStack makes the stack, or waits for the one that is being made.
func (s *session) ensureStack(ctx context.Context) error {
	_, err := s.carryOut(ctx, plan{s.create, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		return s.deployment(stack, "unchanged"), s.checkTable(ctx, stack)
	}})
	return err
}

// furnish adds what a table lacks. The namespace comes last: once it is there,
// Open looks no further.
func (s *session) furnish(ctx context.Context, repo *dynamo.Repository) error {
	_, err := repo.Version(ctx)
	if errors.Is(err, limiter.ErrNotFound) {
		err = repo.RecordDeployment(ctx, s.opts.Now(), "client:"+s.opts.Version)
	}
	if err != nil {
		return err
	}
	_, err = s.settleIn(ctx, repo)
	return err
}
