package infra

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// change makes a stack what its owner wants.
func (s *session) change(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
	if err := s.settle(ctx, stack); err != nil {
		return Deployment{}, err
	}
	if err := s.checkVersions(ctx, stack); err != nil {
		return Deployment{}, err
	}
	code, err := s.publish(ctx, s.opts.Stack.hasFunctions(), s.opts.Stack.ArtifactBucket, s.opts.Stack.Architecture)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
		TemplateBody: aws.String(string(Template())),
		Parameters:   append(sent(s.opts.Stack.parameters(s.name, code.at(s.opts.Stack.ArtifactBucket))), position(stack)),
		Tags:         sentTags(merged(s.opts.Stack.Tags, discoveryTags(s.name), versionTags(s.opts.Version))),
	})
	return d, advised(stack, err)
}

// advised says what a failed update may have done to a stack of Python's.
func advised(stack *cfn.Stack, err error) error {
	if failed, ok := errors.AsType[*FailedError](err); ok && !madeByGo(stack) {
		failed.Advice = "Python's function may have the placeholder for its code again, and count nothing; repeat this, or run `upgrade --force` of Python's tool"
	}
	return err
}

// apply updates a stack and waits for it.
func (s *session) apply(ctx context.Context, stack *cfn.Stack, code *Code, in cloudformation.CreateChangeSetInput) (Deployment, error) {
	j, err := s.update(ctx, stack, in)
	if err == nil && j == nil && !maps.Equal(tagsOf(*stack), tagsOf(cfn.Stack{Tags: in.Tags})) {
		j, err = s.retag(ctx, stack, in.Tags)
	}
	if err != nil {
		return Deployment{}, err
	}
	if j == nil {
		d := s.deployment(stack, "unchanged")
		d.Code = code
		return d, nil
	}
	if s.opts.NoWait {
		d := s.deployment(&cfn.Stack{StackId: stack.StackId, StackStatus: cfn.StackStatusUpdateInProgress}, opUpdate)
		d.Code = code
		return d, nil
	}
	return s.conclude(ctx, j, opUpdate, code)
}

// isRace tells whether a stack has changed since it was looked at, so that it
// has to be looked at again.
func isRace(err error) bool {
	busyNow := errorCode(err) == "ValidationError" && strings.Contains(errorText(err), "_IN_PROGRESS")
	return busyNow || is[*cfn.AlreadyExistsException](err) || is[*cfn.InvalidChangeSetStatusException](err)
}

// checkVersions refuses to replace what is newer: in the stack by its tags, in
// the table by its version record.
func (s *session) checkVersions(ctx context.Context, stack *cfn.Stack) error {
	for _, tag := range []string{tagVersion, tagLambdaVersion} {
		deployed := tagsOf(*stack)[tag]
		if madeByGo(stack) && !s.opts.Downgrade && !mayFollow(s.opts.Version, deployed) {
			return s.refuse(stack, fmt.Sprintf("version %s deployed it, and this program, %s, is older or no release; run a newer program, or allow it with --downgrade of deploy or --force of upgrade",
				deployed, s.opts.Version))
		}
	}
	return s.checkTable(ctx, stack)
}

// checkTable refuses a stack whose table is gone, or not for us to use.
func (s *session) checkTable(ctx context.Context, stack *cfn.Stack) error {
	repo, err := s.table(ctx)
	if errors.Is(err, limiter.ErrNotFound) {
		return s.refuse(stack, "its table is gone, though the stack is there; delete the stack, and deploy it again")
	}
	if err != nil {
		return err
	}
	return repo.Close()
}

// madeByGo tells a stack of this package from one of Python's tool, whose
// versions are counted differently.
func madeByGo(stack *cfn.Stack) bool {
	_, ok := parameterOf(*stack, paramCodeKey)
	return ok
}

// finish prepares the table, unless nobody waited for it. The version record
// comes last: it says that all before it is done. Where none is asked for, a
// namespace is registered only in a table that has none.
func (s *session) finish(ctx context.Context, d *Deployment, asked bool) (err error) {
	if isBusyStatus(d.Status) {
		return nil
	}
	repo, err := s.table(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	if err := s.expire(ctx); err != nil {
		return err
	}
	if asked || isEmpty(repo.Namespaces(ctx)) {
		home, err := s.settleIn(ctx, repo)
		if err != nil {
			return err
		}
		d.Namespace, d.NamespaceID = home.Name, home.ID
	}
	if err := repo.RecordDeployment(ctx, s.opts.Now(), "cli:"+s.opts.Version); err != nil {
		return err
	}
	d.Complete = true
	return nil
}

// isEmpty is false where it could not be found out.
func isEmpty[T any](all iter.Seq2[T, error]) bool {
	for range all {
		return false
	}
	return true
}

// expire has the table remove what has expired. CloudFormation does so when it
// makes one, but not again after somebody has switched it off, and emulators do
// not at all. Where it may not be done now, [Inspect] tells.
func (s *session) expire(ctx context.Context) error {
	out, err := s.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.name})
	if err == nil && out.TimeToLiveDescription != nil && out.TimeToLiveDescription.TimeToLiveStatus == ddb.TimeToLiveStatusDisabled {
		_, err = s.tables.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &s.name,
			TimeToLiveSpecification: &ddb.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
		})
	}
	if isDenied(err) || errorCode(err) == "ValidationException" { // which is said when it was changed within the hour
		return nil
	}
	return err
}

// settleIn registers the namespace, and stores how long its audit events are
// kept if that was said.
func (s *session) settleIn(ctx context.Context, repo *dynamo.Repository) (limiter.Namespace, error) {
	name := dynamo.NamespaceName(s.opts.Dynamo.Namespace)
	namespace, err := repo.RegisterNamespace(ctx, s.opts.Now(), name)
	days := s.opts.Stack.AuditRetentionDays
	if err != nil || days == 0 {
		return namespace, err
	}
	view, err := repo.Namespace(ctx, name)
	if err != nil {
		return namespace, err
	}
	home, ok := view.(*dynamo.Repository)
	if !ok {
		return namespace, fmt.Errorf("namespace %q is a %T", name, view)
	}
	return namespace, home.SetAuditRetention(ctx, s.opts.Now(), days)
}
