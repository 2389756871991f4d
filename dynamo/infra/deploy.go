package infra

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Deployment is the result of Deploy, Upgrade or Tag.
type Deployment struct {
	Name    string `json:"name"`
	Region  string `json:"region"`
	StackID string `json:"stack_id"`
	Status  string `json:"status"` // of the stack
	// Action is created, updated or unchanged, or waiting if another operation is in
	// progress and NoWait is set.
	Action      string            `json:"action"`
	Code        *Code             `json:"code"`      // nil without functions
	Namespace   string            `json:"namespace"` // the registered namespace; "" if that is not done yet
	NamespaceID string            `json:"namespace_id"`
	Migrated    []string          `json:"migrated"` // versions of the migrations that ran
	Outputs     map[string]string `json:"outputs"`  // of the stack
	// Complete reports whether the table is prepared. With NoWait, another call has to
	// prepare it.
	Complete bool `json:"complete"`
}

// Code is the deployed code of the functions.
type Code struct {
	Bucket   string `json:"bucket"`
	Key      string `json:"key"`
	SHA256   string `json:"sha256"`
	Size     int    `json:"size"`
	Uploaded bool   `json:"uploaded"` // false if the bucket had it already
	Source   string `json:"source"`
}

// Deploy creates the stack, or updates it to match Options.Stack, and prepares its
// table: it registers the namespace, stores the retention of audit events and
// records the version. It never replaces the table.
//
// It returns a *limiter.InvalidError before any call if the options are invalid; a
// *RefusedError if the stack does not belong to zae-limiter, cannot be updated in
// its state, or would lose its table; a *FailedError if CloudFormation could not
// complete the operation; an *InterruptedError if ctx ended during it; a
// *limiter.VersionError if the table has a newer version; and a
// *limiter.UnavailableError if AWS cannot be reached or denies access. If the
// endpoint serves no CloudFormation, like DynamoDB Local, the error names the
// command to use instead.
func Deploy(ctx context.Context, name string, opts *Options) (Deployment, error) {
	s, err := newDeploySession(ctx, "deploy", name, opts)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.run(ctx, plan{missing: s.create, stable: s.update})
	if err == nil {
		err = s.finish(ctx, &d, true)
	}
	return d, translateError(ctx, "deploy", s.adviseExistingTable(ctx, err))
}

// newDeploySession returns a session for calls that use all of Options.Stack.
func newDeploySession(ctx context.Context, op, name string, opts *Options) (*session, error) {
	if opts == nil {
		opts = &Options{}
	}

	stack, table := opts.Stack.WithDefaults(), dynamo.TableName(name)
	// The functions of the stack decide which names have to fit, and Resolve
	// may change them. The error about names therefore waits.
	unresolved, architecture := stack.checkNames(table), opts.Stack.Architecture
	if opts.Resolve != nil {
		// Resolve may choose another architecture.
		architecture = ""
	}

	err := cmp.Or(stack.checkFields(table), checkNamespace(opts), checkZip(opts.Zip, architecture))
	if err == nil && opts.Resolve == nil {
		err = unresolved
	}

	if err != nil {
		return nil, err
	}

	s, err := newStackSession(ctx, op, name, opts)
	if err != nil {
		return nil, err
	}

	s.unresolved = unresolved
	return s, checkTopicRegion(stack.AlarmTopicARN, s.region)
}

// checkNamespace validates the namespace to register.
func checkNamespace(opts *Options) error {
	return limiter.Namespace{Name: dynamo.NamespaceName(opts.Dynamo.Namespace)}.Validate()
}

// newUpdateSession returns a session for calls that keep the settings of a deployed
// stack.
func newUpdateSession(ctx context.Context, op, name string, opts *Options) (*session, error) {
	if opts == nil {
		opts = &Options{}
	}

	err := cmp.Or(
		checkArchitecture(cmp.Or(opts.Stack.Architecture, ARM64)),
		checkBucketName(opts.Stack.ArtifactBucket),
		checkTags(opts.Stack.Tags),
		checkNamespace(opts),
		checkZip(opts.Zip, opts.Stack.Architecture),
	)
	if err != nil {
		return nil, err
	}
	return newStackSession(ctx, op, name, opts)
}

// plan holds the function to call for a missing stack, and for one that can be
// updated.
type plan struct {
	missing func(context.Context) (Deployment, error)
	stable  func(context.Context, *cfn.Stack) (Deployment, error)
}

// maxRounds is the number of attempts on a stack that others change at the same
// time.
const maxRounds = 10

// run executes the plan once no other operation is in progress.
func (s *session) run(ctx context.Context, p plan) (Deployment, error) {
	var stack *cfn.Stack
	for range maxRounds {
		var err error
		if stack, err = s.find(ctx); err != nil {
			return Deployment{}, s.describeError(err)
		}

		if stack != nil && stateOf(stack) != missing {
			if err := s.checkOwner(ctx, stack); err != nil {
				return Deployment{}, err
			}
		}

		var d Deployment
		switch stateOf(stack) {
		case missing:
			d, err = p.missing(ctx)
		case stable:
			d, err = p.stable(ctx, stack)
		case busy, deleting:
			if s.opts.NoWait {
				return s.deployment(stack, "waiting"), nil
			}
			if err := s.waitForOthers(ctx, stack); err != nil {
				return Deployment{}, err
			}

			continue
		default:
			return Deployment{}, s.refuseState(stack)
		}

		if !isRace(err) {
			return d, err
		}
	}

	return Deployment{}, s.contended()
}

// contended returns the error for a stack that other callers keep changing.
func (s *session) contended() error {
	return &RefusedError{Stack: s.name, Reason: "other callers keep changing it; try again when they have finished"}
}

// describeError returns the error for a failure to describe the stack. If the
// options may be invalid without the deployed settings, it reports that too.
func (s *session) describeError(err error) error {
	if bad, ok := errors.AsType[*limiter.InvalidError](s.unresolved); ok && s.opts.Resolve != nil {
		return invalid(bad.Field, bad.Value, bad.Reason+"; the deployed stack could not be read: "+explain(err).Error())
	}
	return err
}

// deployment returns the result for a stack.
func (s *session) deployment(stack *cfn.Stack, action string) Deployment {
	return Deployment{
		Name: s.name, Region: s.region, StackID: aws.ToString(stack.StackId), Status: string(stack.StackStatus),
		Action: action, Migrated: []string{}, Outputs: outputsOf(stack),
	}
}

// outputsOf returns the outputs of a stack.
func outputsOf(stack *cfn.Stack) map[string]string {
	outputs := map[string]string{}
	if stack != nil {
		for _, o := range stack.Outputs {
			outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	}
	return outputs
}

// create creates the stack.
func (s *session) create(ctx context.Context) (Deployment, error) {
	if err := s.resolveStack(ctx, nil); err != nil {
		return Deployment{}, err
	}

	if err := s.checkNoTable(ctx); err != nil {
		return Deployment{}, err
	}

	code, err := s.publish(ctx, s.opts.Stack.hasFunctions(), s.opts.Stack.ArtifactBucket, s.opts.Stack.Architecture)
	if err != nil {
		return Deployment{}, err
	}

	return s.createStack(ctx, code, cloudformation.CreateStackInput{
		TemplateBody: aws.String(string(Template())),
		Parameters: append(cfnParameters(s.opts.Stack.parameters(s.name, code.at(s.opts.Stack.ArtifactBucket))),
			positionParameter(nil)),
		Tags: cfnTags(mergeTags(s.opts.Stack.Tags, s.discoveryTags(), versionTags(s.opts.Version))),
	})
}

// createStack creates a stack with that code, and waits for the end.
func (s *session) createStack(ctx context.Context, code *Code, in cloudformation.CreateStackInput) (Deployment, error) {
	in.StackName, in.Capabilities = &s.name, []cfn.Capability{cfn.CapabilityCapabilityNamedIam}
	// With a token, a retry by the SDK creates no second stack.
	in.ClientRequestToken = aws.String("zae-limiter-" + rand.Text())

	out, err := s.stacks.CreateStack(ctx, &in)
	if err != nil {
		return Deployment{}, s.startError(ctx, opCreate, err)
	}

	if s.opts.NoWait {
		d := s.deployment(&cfn.Stack{StackId: out.StackId, StackStatus: cfn.StackStatusCreateInProgress}, opCreate)
		d.Code = code
		return d, nil
	}

	// A new stack has no earlier events to skip.
	w := &watcher{session: s, stack: *out.StackId}
	return w.deployment(ctx, opCreate, code)
}

// deployment waits for the end of the operation and returns its result.
func (w *watcher) deployment(ctx context.Context, op string, code *Code) (Deployment, error) {
	stack, err := w.wait(ctx, op)
	if err != nil {
		return Deployment{}, err
	}

	if stack == nil {
		return Deployment{}, w.failedError(op, string(cfn.StackStatusDeleteComplete))
	}

	// A rollback ends the operation as well, but not in one of these two.
	if stack.StackStatus != cfn.StackStatusCreateComplete && stack.StackStatus != cfn.StackStatusUpdateComplete {
		return Deployment{}, w.failedError(op, string(stack.StackStatus))
	}

	d := w.session.deployment(stack, op)
	d.Code = code
	return d, nil
}

// checkNoTable refuses to create a stack if a table of its name exists: the creation
// would fail after several minutes.
func (s *session) checkNoTable(ctx context.Context) error {
	_, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.name})
	switch {
	case err == nil:
		return &RefusedError{
			Stack: s.name,
			Reason: fmt.Sprintf("table %s exists and belongs to no stack; choose another name, or delete the table",
				s.name),
		}
	// Without the right to look, the caller may still be allowed to create the
	// stack.
	case errorCode(err) == "ResourceNotFoundException" || isDenied(err):
		return nil
	}
	return err
}

// publish builds and uploads the functions' code. It returns nil if there are no
// functions.
func (s *session) publish(ctx context.Context, functions bool, bucket, architecture string) (*Code, error) {
	if !functions {
		return nil, nil
	}

	p, err := NewPackage(ctx, &PackageOptions{
		Architecture: architecture, Zip: s.opts.Zip, Version: s.opts.Version, Building: s.opts.Building,
	})
	if err != nil {
		return nil, s.refuseCode(ctx, err)
	}

	return s.store(ctx, bucket, p)
}

// refuseCode returns the error for code that could not be built.
func (s *session) refuseCode(ctx context.Context, err error) error {
	// An error of this package already says what to do.
	if err != nil && ctx.Err() == nil && !isTranslated(err) {
		return &RefusedError{Stack: s.name, Reason: err.Error()}
	}
	return err
}

// store uploads a package, and returns where it is.
func (s *session) store(ctx context.Context, bucket string, p *Package) (*Code, error) {
	at, uploaded, err := s.upload(ctx, bucket, p)
	if err != nil {
		return nil, err
	}
	return &Code{
		Bucket: at.bucket, Key: at.key, SHA256: p.SHA256, Size: len(p.Zip), Uploaded: uploaded,
		Source: p.Source,
	}, nil
}

// at returns the location of the code. Without code it returns the bucket alone, so
// that a stack without functions keeps that setting.
func (c *Code) at(bucket string) object {
	if c == nil {
		return object{bucket: bucket}
	}
	return object{c.Bucket, c.Key}
}
