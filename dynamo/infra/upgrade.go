package infra

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// UpgradeOptions configures [Upgrade]. The zero value of a field is its default.
type UpgradeOptions struct {
	// Options configures the call. Of Stack, only ArtifactBucket and Architecture
	// have an effect; everything else keeps its deployed value.
	Options Options
	// LambdaOnly updates only the code of the functions, not the template and the
	// table.
	LambdaOnly bool
	// Migrating, if not nil, is called with the progress of a data migration.
	Migrating func(dynamo.Progress)
}

// Upgrade updates a stack to this version: the template, code and tags, then the
// data, then the version record. It keeps parameters and the owner's tags.
//
// It returns the errors of Deploy, limiter.ErrNotFound if there is no stack, and a
// *dynamo.MigrationError.
func Upgrade(ctx context.Context, name string, opts *UpgradeOptions) (Deployment, error) {
	if opts == nil {
		opts = &UpgradeOptions{}
	}
	s, err := newUpdateSession(ctx, "upgrade", name, &opts.Options)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.upgrade(ctx, opts)
	return d, translateError(ctx, "upgrade", err)
}

// upgrade updates the stack and migrates its data.
func (s *session) upgrade(ctx context.Context, opts *UpgradeOptions) (Deployment, error) {
	d, err := s.run(ctx, plan{s.notFound, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		return s.upgradeStack(ctx, stack, opts.LambdaOnly)
	}})

	// With NoWait, migrations are part of the work that is left to another call.
	if err != nil || opts.LambdaOnly || isBusyStatus(d.Status) {
		d.Complete = err == nil && !isBusyStatus(d.Status)
		return d, err
	}

	migrated, err := dynamo.Migrate(ctx, s.name, &dynamo.MigrateOptions{
		Options: s.opts.Dynamo, Progress: opts.Migrating,
	})
	d.Migrated = append(d.Migrated, migrated...)
	// The version record comes last, to mark that the data have this version.
	if err == nil {
		err = s.finish(ctx, &d, false)
	}
	return d, err
}

// notFound returns the error for a missing stack.
func (s *session) notFound(context.Context) (Deployment, error) {
	deploy := s.ofKind(remedy.Deploy, remedy.DeployLoad)
	return Deployment{}, remedy.With(fmt.Errorf("stack %q: %w in region %s; %v creates it", s.name,
		limiter.ErrNotFound, s.region, deploy), deploy)
}

// upgradeStack updates a stack to this version and keeps its settings.
func (s *session) upgradeStack(ctx context.Context, stack *cfn.Stack, lambdaOnly bool) (Deployment, error) {
	if lambdaOnly && !isGoStack(stack) {
		return Deployment{}, s.refuse(stack,
			"its template is from the Python tool and does not support this code; upgrade all of it")
	}

	if err := s.checkVersions(ctx, stack); err != nil {
		return Deployment{}, err
	}

	// The bucket has the tags of the stack.
	s.opts.Stack.Tags = stackOf(stack).Tags

	bucket, architecture := s.codeTarget(ctx, stack)

	code, err := s.publish(ctx, stackOf(stack).hasFunctions(), bucket, architecture)
	if err != nil {
		return Deployment{}, err
	}

	at := code.at(bucket)
	changed := []parameter{{paramCodeBucket, at.bucket}, {paramCodeKey, at.key}, {paramArchitecture, architecture}}

	tags := mergeTags(tagsOf(*stack), s.discoveryTags())
	// With the deployed template, nothing but the code has a new version.
	if lambdaOnly {
		tags[tagLambdaVersion] = s.opts.Version
		return s.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
			UsePreviousTemplate: aws.Bool(true), Parameters: previousParameters(*stack, nil, changed...),
			Tags: cfnTags(tags),
		})
	}

	d, err := s.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
		TemplateBody: aws.String(string(Template())),
		Parameters: previousParameters(*stack, parameterNames(),
			append(changed, parameter{paramSchema, dynamo.SchemaVersion})...),
		Tags: cfnTags(mergeTags(tags, versionTags(s.opts.Version))),
	})

	return d, withPythonAdvice(stack, err)
}

// codeTarget returns the bucket for a stack's code, "" for its own, and the
// architecture.
func (s *session) codeTarget(ctx context.Context, stack *cfn.Stack) (bucket, architecture string) {
	bucket = s.opts.Stack.ArtifactBucket
	// The deployed code is in the stack's own bucket unless the owner named
	// another one. If the name of the own one is unknown, the deployed bucket
	// stays.
	if before, _ := parameterOf(*stack, paramCodeBucket); bucket == "" && before != "" {
		if own, _, err := s.ownBucket(ctx); err != nil || before != own {
			bucket = before
		}
	}
	return bucket, s.architecture(stack)
}
