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

// update updates the stack to Options.Stack.
func (s *session) update(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
	if err := s.resolveStack(ctx, stack); err != nil {
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
		Parameters: append(cfnParameters(s.opts.Stack.parameters(s.name, code.at(s.opts.Stack.ArtifactBucket))),
			positionParameter(stack)),
		Tags: cfnTags(mergeTags(s.opts.Stack.Tags, s.discoveryTags(), versionTags(s.opts.Version))),
	})
	return d, withPythonAdvice(stack, err)
}

// withPythonAdvice adds to a *FailedError what a failed update may have done to a
// stack of the Python tool.
func withPythonAdvice(stack *cfn.Stack, err error) error {
	// After a failed update, CloudFormation restores the code that the template
	// of the Python tool names, which is a placeholder.
	if failed, ok := errors.AsType[*FailedError](err); ok && !isGoStack(stack) {
		failed.Advice = "the function of the Python tool may have lost its code, and count nothing; repeat " +
			"this, or run `upgrade --force` of the Python tool"
	}
	return err
}

// apply updates a stack and waits for the end of the update.
func (s *session) apply(
	ctx context.Context, stack *cfn.Stack, code *Code, in cloudformation.CreateChangeSetInput,
) (Deployment, error) {
	w, err := s.startUpdate(ctx, stack, in)

	// Change sets of emulators ignore tags, so a change of nothing but tags
	// looks like none.
	if err == nil && w == nil && !maps.Equal(tagsOf(*stack), tagsOf(cfn.Stack{Tags: in.Tags})) {
		w, err = s.startTagUpdate(ctx, stack, in.Tags)
	}

	if err != nil {
		return Deployment{}, err
	}

	if w == nil {
		d := s.deployment(stack, "unchanged")
		d.Code = code
		return d, nil
	}

	if s.opts.NoWait {
		d := s.deployment(&cfn.Stack{StackId: stack.StackId, StackStatus: cfn.StackStatusUpdateInProgress}, opUpdate)
		d.Code = code
		return d, nil
	}

	return w.deployment(ctx, opUpdate, code)
}

// isRace reports whether another caller has changed the stack since it was
// described.
func isRace(err error) bool {
	busyNow := errorCode(err) == "ValidationError" && strings.Contains(errorText(err), "_IN_PROGRESS")
	return busyNow || is[*cfn.AlreadyExistsException](err) || is[*cfn.InvalidChangeSetStatusException](err)
}

// checkVersions refuses a downgrade of a stack, by its tags, and a table of a newer
// version.
func (s *session) checkVersions(ctx context.Context, stack *cfn.Stack) error {
	if err := s.checkDowngrade(stack); err != nil {
		return err
	}
	return s.checkTable(ctx, stack)
}

// checkDowngrade refuses a stack that a newer version deployed.
func (s *session) checkDowngrade(stack *cfn.Stack) error {
	for _, tag := range []string{tagVersion, tagLambdaVersion} {
		deployed := tagsOf(*stack)[tag]
		// Versions of the Python tool are not comparable with those of this
		// program, so only our own stacks can be newer.
		if isGoStack(stack) && !s.opts.Downgrade && !canReplace(s.opts.Version, deployed) {
			allow := "allow it with --downgrade of deploy or --force of upgrade"
			if s.kind == typeLoad {
				allow = "delete the load test and deploy it again"
			}
			return s.refuse(stack, fmt.Sprintf("version %s deployed it, and this program, %s, is older or "+
				"not a release; run a newer program, or %s",
				deployed, s.opts.Version, allow))
		}
	}
	return nil
}

// checkTable refuses a stack whose table does not exist or is not usable.
func (s *session) checkTable(ctx context.Context, stack *cfn.Stack) error {
	repo, err := s.table(ctx)
	// CloudFormation believes that the table exists, so no update would create
	// it again.
	if errors.Is(err, limiter.ErrNotFound) {
		return s.refuse(stack, "its table does not exist; delete the stack, and deploy it again")
	}
	if err != nil {
		return err
	}
	return repo.Close()
}

// isGoStack reports whether this package deployed the stack. Versions of the Python
// tool are not comparable.
func isGoStack(stack *cfn.Stack) bool {
	_, ok := parameterOf(*stack, paramCodeKey)
	return ok
}

// finish prepares the table, unless an operation is in progress. It writes the
// version record last, to mark the table as complete. Without register, it
// registers the namespace only in a table that has none.
func (s *session) finish(ctx context.Context, d *Deployment, register bool) (err error) {
	if isBusyStatus(d.Status) {
		return nil
	}

	repo, err := s.table(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	if err := s.enableTTL(ctx); err != nil {
		return err
	}

	if register || isEmpty(repo.Namespaces(ctx)) {
		home, err := s.registerNamespace(ctx, repo)
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

// isEmpty reports whether a sequence has no element and no error.
func isEmpty[T any](all iter.Seq2[T, error]) bool {
	for range all {
		return false
	}
	return true
}

// enableTTL enables expiry in the table. CloudFormation does that only at creation,
// and emulators ignore it. If the caller lacks the permission, [Inspect] reports the
// problem.
func (s *session) enableTTL(ctx context.Context) error {
	out, err := s.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.name})
	if err == nil && out.TimeToLiveDescription != nil &&
		out.TimeToLiveDescription.TimeToLiveStatus == ddb.TimeToLiveStatusDisabled {
		_, err = s.tables.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: &s.name,
			TimeToLiveSpecification: &ddb.TimeToLiveSpecification{
				AttributeName: aws.String("ttl"), Enabled: aws.Bool(true),
			},
		})
	}

	// DynamoDB accepts one change of expiry an hour, so a table that changed
	// within the last hour has to wait.
	if isDenied(err) || errorCode(err) == "ValidationException" {
		return nil
	}
	return err
}

// registerNamespace registers the namespace, and stores the retention of its audit
// events if that is set.
func (s *session) registerNamespace(ctx context.Context, repo *dynamo.Repository) (limiter.Namespace, error) {
	name := dynamo.NamespaceName(s.opts.Dynamo.Namespace)
	namespace, err := repo.RegisterNamespace(ctx, s.opts.Now(), name)
	days := s.opts.Stack.AuditRetentionDays
	// No retention was given, so the stored one stays.
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
