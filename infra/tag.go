package infra

import (
	"context"
	"crypto/rand"
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
	s, err := dialDeployed(ctx, "tag", name, opts)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.tag(ctx)
	d.Complete = err == nil && !isBusyStatus(d.Status)
	return d, failure(ctx, "tag", err)
}

func (s *session) tag(ctx context.Context) (Deployment, error) {
	return s.carryOut(ctx, plan{s.notFound, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		before := tagsOf(*stack)
		after := merged(before, s.opts.Stack.Tags, managedIn(before), discoveryTags(s.name))
		if maps.Equal(before, after) {
			return s.deployment(stack, "unchanged"), nil
		}
		if err := checkTags(after); err != nil {
			return Deployment{}, err
		}
		return s.apply(ctx, stack, nil, cloudformation.CreateChangeSetInput{
			UsePreviousTemplate: aws.Bool(true), Parameters: previous(*stack, nil), Tags: sentTags(after),
		})
	}})
}

// retag changes the tags where change sets do not see them: those of emulators
// look at the template and the parameters alone. Parameters without a value are
// left out, as always; moto takes an update with all of them for none.
func (s *session) retag(ctx context.Context, stack *cfn.Stack, tags []cfn.Tag) (*journal, error) {
	j, err := s.journalFrom(ctx, *stack.StackId)
	if err != nil {
		return nil, err
	}
	in := &cloudformation.UpdateStackInput{
		StackName: stack.StackName, UsePreviousTemplate: aws.Bool(true), Tags: tags,
		Capabilities:       []cfn.Capability{cfn.CapabilityCapabilityNamedIam},
		ClientRequestToken: aws.String("zae-limiter-" + rand.Text()),
	}
	for _, p := range stack.Parameters {
		if aws.ToString(p.ParameterValue) != "" || !madeByGo(stack) {
			in.Parameters = append(in.Parameters, cfn.Parameter{ParameterKey: p.ParameterKey, UsePreviousValue: aws.Bool(true)})
		}
	}
	if _, err := s.stacks.UpdateStack(ctx, in); isNoUpdate(errorText(err)) {
		return nil, nil
	} else if err != nil {
		return nil, s.orInterrupted(ctx, opUpdate, err)
	}
	return j, nil
}

// managedIn are those of the tags that are zae-limiter's own.
func managedIn(tags map[string]string) map[string]string {
	own := maps.Clone(tags)
	maps.DeleteFunc(own, func(key, _ string) bool { return !isManagedTag(key) })
	return own
}
