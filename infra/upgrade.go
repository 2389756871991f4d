package infra

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// UpgradeOptions are those of [Upgrade]. The zero value of a field is its
// default.
type UpgradeOptions struct {
	// Options are those of every call. Of Stack only ArtifactBucket and
	// Architecture have an effect: all else stays as it was deployed.
	Options Options
	// LambdaOnly brings new code to the functions and leaves the template and the
	// table alone.
	LambdaOnly bool
	// Migrating is told how far a migration of the data has come. Default:
	// nobody.
	Migrating func(dynamo.Progress)
}

// Upgrade brings a stack to this version: template, code, tags, then the data,
// and at last the version record. Parameters and the owner's tags stay as they
// are.
//
// Errors are those of Deploy; limiter.ErrNotFound when there is no stack;
// *dynamo.MigrationError.
func Upgrade(ctx context.Context, name string, opts *UpgradeOptions) (Deployment, error) {
	if opts == nil {
		opts = &UpgradeOptions{}
	}
	s, err := dialDeployed(ctx, "upgrade", name, &opts.Options)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.upgrade(ctx, opts)
	return d, failure(ctx, "upgrade", err)
}

func (s *session) upgrade(ctx context.Context, opts *UpgradeOptions) (Deployment, error) {
	d, err := s.carryOut(ctx, plan{s.notFound, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		return s.renew(ctx, stack, opts.LambdaOnly)
	}})
	if err != nil || opts.LambdaOnly || isBusyStatus(d.Status) {
		d.Complete = err == nil && !isBusyStatus(d.Status)
		return d, err
	}
	migrated, err := dynamo.Migrate(ctx, s.name, &dynamo.MigrateOptions{Options: s.opts.Dynamo, Progress: opts.Migrating})
	d.Migrated = append(d.Migrated, migrated...)
	if err == nil {
		err = s.finish(ctx, &d, false)
	}
	return d, err
}

// notFound is the plan for a stack that has to be there.
func (s *session) notFound(context.Context) (Deployment, error) {
	return Deployment{}, fmt.Errorf("stack %q: %w in region %s; %s makes it", s.name, limiter.ErrNotFound, s.region, s.place.Command("deploy", "--name", s.name))
}

// renew updates a stack to this version as it is.
func (s *session) renew(ctx context.Context, stack *cfn.Stack, lambdaOnly bool) (Deployment, error) {
	if lambdaOnly && !madeByGo(stack) {
		return Deployment{}, s.refuse(stack, "its template is that of Python's tool, which has no place for this code; upgrade all of it")
	}
	if err := s.checkVersions(ctx, stack); err != nil {
		return Deployment{}, err
	}
	s.opts.Stack.Tags = wantedOf(stack).Tags
	bucket, architecture := s.codeOf(ctx, stack)
	code, err := s.publish(ctx, wantedOf(stack).hasFunctions(), bucket, architecture)
	if err != nil {
		return Deployment{}, err
	}
	at := code.at(bucket)
	changed := []parameter{{paramCodeBucket, at.bucket}, {paramCodeKey, at.key}, {paramArchitecture, architecture}}
	tags := merged(tagsOf(*stack), discoveryTags(s.name))
	if lambdaOnly {
		tags[tagLambdaVersion] = s.opts.Version
		return s.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
			UsePreviousTemplate: aws.Bool(true), Parameters: previous(*stack, nil, changed...), Tags: sentTags(tags),
		})
	}
	d, err := s.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
		TemplateBody: aws.String(string(Template())),
		Parameters:   previous(*stack, parameterNames(), append(changed, parameter{paramSchema, dynamo.SchemaVersion})...),
		Tags:         sentTags(merged(tags, versionTags(s.opts.Version))),
	})
	return d, advised(stack, err)
}

// codeOf is where a stack's code belongs, "" for its own bucket, and what it has
// to run on.
func (s *session) codeOf(ctx context.Context, stack *cfn.Stack) (bucket, architecture string) {
	bucket = s.opts.Stack.ArtifactBucket
	if before, _ := parameterOf(*stack, paramCodeBucket); bucket == "" && before != "" {
		if own, _, err := s.ownBucket(ctx); err != nil || before != own {
			bucket = before
		}
	}
	return bucket, s.architecture(stack)
}
