package infra

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Tag adds the tags of Options.Stack to those of a stack, and the ones by which
// it is found. Template and parameters stay as they are, and so do other tags; to
// remove one, deploy without it.
//
// Errors are those of Deploy; limiter.ErrNotFound when there is no stack.
func Tag(ctx context.Context, name string, opts *Options) (Deployment, error) {
	s, err := dialStack(ctx, "tag", name, opts)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.tag(ctx)
	return d, failure(ctx, "tag", err)
}

func (s *session) tag(ctx context.Context) (Deployment, error) {
	return s.carryOut(ctx, plan{s.notFound, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		before := tagsOf(*stack)
		after := merged(before, s.opts.Stack.Tags, versionsIn(before), discoveryTags(s.name))
		if maps.Equal(before, after) {
			return s.deployment(stack, "unchanged"), nil
		}
		if err := checkTags(after); err != nil {
			return Deployment{}, err
		}
		return s.apply(ctx, stack, nil, cloudformation.CreateChangeSetInput{
			UsePreviousTemplate: aws.Bool(true), Parameters: kept(*stack, nil), Tags: sentTags(after),
		})
	}})
}

// versionsIn are those of the tags that say which version is deployed.
func versionsIn(tags map[string]string) map[string]string {
	versions := map[string]string{}
	for key, value := range tags {
		if isManagedTag(key) {
			versions[key] = value
		}
	}
	return versions
}
