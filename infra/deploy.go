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

// Deployment is what Deploy and Upgrade have done.
type Deployment struct {
	Name        string            `json:"name"`
	Region      string            `json:"region"`
	StackID     string            `json:"stack_id"`
	Status      string            `json:"status"`    // of the stack
	Action      string            `json:"action"`    // created, updated or unchanged; waiting where others are at work and NoWait is set
	Code        *Code             `json:"code"`      // nil without functions
	Namespace   string            `json:"namespace"` // that is registered; "" while that is left to be done
	NamespaceID string            `json:"namespace_id"`
	Migrated    []string          `json:"migrated"` // versions whose migrations were run
	Outputs     map[string]string `json:"outputs"`  // of the stack
	Complete    bool              `json:"complete"` // the table is prepared; with NoWait another call has to do it
}

// Code is the functions' code as it was deployed.
type Code struct {
	Bucket   string `json:"bucket"`
	Key      string `json:"key"`
	SHA256   string `json:"sha256"`
	Size     int    `json:"size"`
	Uploaded bool   `json:"uploaded"` // false where it was there already
	Source   string `json:"source"`
}

// Deploy makes the stack, or changes the one that is there to what Options.Stack
// says, whoever made it, and prepares its table: registers the namespace, stores
// how long audit events are kept, and notes the version. It never replaces the
// table.
//
// Errors: *limiter.InvalidError before any call; *RefusedError for a stack that
// belongs to something else, is in a state that cannot be changed, or would lose
// its table; *FailedError for work that failed in the account;
// *InterruptedError when ctx ended meanwhile; *limiter.VersionError for a table of
// a newer version; *limiter.UnavailableError when AWS cannot be asked or refuses;
// an error with another way where the endpoint serves no CloudFormation, as
// DynamoDB Local does not.
func Deploy(ctx context.Context, name string, opts *Options) (Deployment, error) {
	s, err := dialStack(ctx, "deploy", name, opts)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.carryOut(ctx, plan{missing: s.create, stable: s.change})
	if err == nil {
		err = s.finish(ctx, &d, true)
	}
	return d, failure(ctx, "deploy", s.adviseTable(ctx, err))
}

// dialStack is dial for calls that need to know what the owner wants.
func dialStack(ctx context.Context, op, name string, opts *Options) (*session, error) {
	if opts == nil {
		opts = &Options{}
	}
	stack, table := opts.Stack.WithDefaults(), dynamo.TableName(name)
	doubt, architecture := stack.checkParts(table), opts.Stack.Architecture
	if opts.Settle != nil {
		architecture = "" // it may be another
	}
	err := cmp.Or(stack.checkAlone(table), checkNamespace(opts), checkZip(opts.Zip, architecture))
	if err == nil && opts.Settle == nil {
		err = doubt
	}
	if err != nil {
		return nil, err
	}
	s, err := dial(ctx, op, name, opts)
	if err != nil {
		return nil, err
	}
	s.doubt = doubt
	return s, checkTopicRegion(stack.AlarmTopicARN, s.region)
}

func checkNamespace(opts *Options) error {
	return limiter.Namespace{Name: dynamo.NamespaceName(opts.Dynamo.Namespace)}.Validate()
}

// dialDeployed is dial for calls that change a stack which is there: what it has
// decides what else it may be.
func dialDeployed(ctx context.Context, op, name string, opts *Options) (*session, error) {
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
	return dial(ctx, op, name, opts)
}

// plan says what to do with a stack that is missing, and with one that can be
// changed.
type plan struct {
	missing func(context.Context) (Deployment, error)
	stable  func(context.Context, *cfn.Stack) (Deployment, error)
}

// maxRounds is how often a stack may change under our hands.
const maxRounds = 10

// carryOut does what the plan says, once nobody else is at work on the stack.
func (s *session) carryOut(ctx context.Context, p plan) (Deployment, error) {
	var stack *cfn.Stack
	for range maxRounds {
		var err error
		if stack, err = s.find(ctx); err != nil {
			return Deployment{}, s.orDoubt(err)
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
		case busy, leaving:
			if s.opts.NoWait {
				return s.deployment(stack, "waiting"), nil
			}
			if err := s.await(ctx, stack); err != nil {
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

// contended is the error for a stack that others do not leave alone.
func (s *session) contended() error {
	return &RefusedError{Stack: s.name, Reason: "others keep changing it; try again when they have finished"}
}

// orDoubt is the error of not finding out what is there, which might have removed
// a doubt about what is wanted.
func (s *session) orDoubt(err error) error {
	if bad, ok := errors.AsType[*limiter.InvalidError](s.doubt); ok && s.opts.Settle != nil {
		return invalid(bad.Field, bad.Value, bad.Reason+"; what is deployed could not be asked: "+explain(err).Error())
	}
	return err
}

func (s *session) deployment(stack *cfn.Stack, action string) Deployment {
	return Deployment{
		Name: s.name, Region: s.region, StackID: aws.ToString(stack.StackId), Status: string(stack.StackStatus),
		Action: action, Migrated: []string{}, Outputs: outputsOf(stack),
	}
}

func outputsOf(stack *cfn.Stack) map[string]string {
	outputs := map[string]string{}
	if stack != nil {
		for _, o := range stack.Outputs {
			outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	}
	return outputs
}

func (s *session) create(ctx context.Context) (Deployment, error) {
	if err := s.settle(ctx, nil); err != nil {
		return Deployment{}, err
	}
	if err := s.checkNoTable(ctx); err != nil {
		return Deployment{}, err
	}
	code, err := s.publish(ctx, s.opts.Stack.hasFunctions(), s.opts.Stack.ArtifactBucket, s.opts.Stack.Architecture)
	if err != nil {
		return Deployment{}, err
	}
	out, err := s.stacks.CreateStack(ctx, &cloudformation.CreateStackInput{
		StackName: &s.name, TemplateBody: aws.String(string(Template())),
		Parameters:         append(sent(s.opts.Stack.parameters(s.name, code.at(s.opts.Stack.ArtifactBucket))), position(nil)),
		Tags:               sentTags(merged(s.opts.Stack.Tags, discoveryTags(s.name), versionTags(s.opts.Version))),
		Capabilities:       []cfn.Capability{cfn.CapabilityCapabilityNamedIam},
		ClientRequestToken: aws.String("zae-limiter-" + rand.Text()), // so that the SDK may send it twice
	})
	if err != nil {
		return Deployment{}, s.orInterrupted(ctx, opCreate, err)
	}
	if s.opts.NoWait {
		d := s.deployment(&cfn.Stack{StackId: out.StackId, StackStatus: cfn.StackStatusCreateInProgress}, opCreate)
		d.Code = code
		return d, nil
	}
	j := &journal{session: s, stack: *out.StackId}
	return s.conclude(ctx, j, opCreate, code)
}

// conclude waits for the operation that the journal is of, and finishes.
func (s *session) conclude(ctx context.Context, j *journal, op string, code *Code) (Deployment, error) {
	stack, err := j.settle(ctx, op)
	if err != nil {
		return Deployment{}, err
	}
	if stack == nil {
		return Deployment{}, j.failed(op, string(cfn.StackStatusDeleteComplete))
	}
	if stack.StackStatus != cfn.StackStatusCreateComplete && stack.StackStatus != cfn.StackStatusUpdateComplete {
		return Deployment{}, j.failed(op, string(stack.StackStatus))
	}
	d := s.deployment(stack, op)
	d.Code = code
	return d, nil
}

// checkNoTable refuses to make a stack whose table is there without one: its
// creation would fail, after many minutes.
func (s *session) checkNoTable(ctx context.Context) error {
	_, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.name})
	switch {
	case err == nil:
		return &RefusedError{Stack: s.name, Reason: fmt.Sprintf("table %s is there already and belongs to no stack; choose another name, or delete that table", s.name)}
	case errorCode(err) == "ResourceNotFoundException" || isDenied(err): // the stack may be made by who may not look
		return nil
	}
	return err
}

// publish makes the functions' code and puts it where they find it; nil where
// there are no functions.
func (s *session) publish(ctx context.Context, functions bool, bucket, architecture string) (*Code, error) {
	if !functions {
		return nil, nil
	}
	p, err := NewPackage(ctx, &PackageOptions{Architecture: architecture, Zip: s.opts.Zip, Version: s.opts.Version, Building: s.opts.Building})
	if err != nil {
		if ctx.Err() == nil && !isDomain(err) {
			err = &RefusedError{Stack: s.name, Reason: err.Error()}
		}
		return nil, err
	}
	at, uploaded, err := s.upload(ctx, bucket, p)
	if err != nil {
		return nil, err
	}
	return &Code{Bucket: at.bucket, Key: at.key, SHA256: p.SHA256, Size: len(p.Zip), Uploaded: uploaded, Source: p.Source}, nil
}

// at is where code is, or would be: a bucket that was named is not forgotten while
// there are no functions.
func (c *Code) at(bucket string) object {
	if c == nil {
		return object{bucket: bucket}
	}
	return object{c.Bucket, c.Key}
}
