package infra

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

//go:embed load.yaml
var loadTemplate string

// LoadTemplate returns the CloudFormation template of a load stack, as YAML.
func LoadTemplate() []byte { return []byte(loadTemplate) }

// LoadOptions configures [DeployLoad] and [PushLoad]. The zero value of a field is
// its default.
type LoadOptions struct {
	// Options configures the call. Of Stack, only ArtifactBucket and Tags have an
	// effect, and tags are only added; Zip and NoWait have none.
	Options Options
	// Load configures the stack. PushLoad ignores it.
	Load LoadStack
	// Resolve, if not nil, returns the stack to deploy, given the deployed one, or
	// nil if there is none. It is called again if the stack changes meanwhile.
	// Default: Load.
	Resolve func(deployed *LoadStack) (LoadStack, error)
	// Dir is a folder with scenarios for the image and the function; default none.
	Dir string
	// Program is the path of a program for Linux on x86_64 whose main function calls
	// loadtest.Main. Default: the running program, or one that is built with Go.
	Program string
	// Locust is the version of Locust in the image, such as "2.47.0"; required.
	Locust string
	// Step, if not nil, is called before a step that may take longer than seconds.
	// The returned function is called with the result.
	Step func(text string) (done func(error))
}

// LoadDeployment is the result of DeployLoad or PushLoad.
type LoadDeployment struct {
	Deployment
	Target string `json:"target"` // name of the tested stack
	Image  string `json:"image"`  // of the containers, with its tag
	Pushed bool   `json:"pushed"` // false if the repository had it already
}

// load is one call about a load stack.
type load struct {
	*session
	opts    LoadOptions
	content *loadContent
	docker  *docker // with the image, once it is built
}

// newLoad returns the state of a call about the load stack of a stack.
func newLoad(ctx context.Context, op, target string, opts *LoadOptions) (*load, error) {
	l := &load{}
	if opts != nil {
		l.opts = *opts
	}

	if l.opts.Step == nil {
		l.opts.Step = func(string) func(error) { return func(error) {} }
	}

	var err error
	l.session, err = newLoadSession(ctx, op, target, &l.opts.Options)
	return l, err
}

// newLoadSession returns a session for the load stack of a stack.
func newLoadSession(ctx context.Context, op, target string, opts *Options) (*session, error) {
	target = dynamo.TableName(target)
	if err := checkLoadName(target); err != nil {
		return nil, err
	}

	if opts == nil {
		opts = &Options{}
	}

	if err := cmp.Or(checkBucketName(opts.Stack.ArtifactBucket), checkTags(opts.Stack.Tags)); err != nil {
		return nil, err
	}

	s, err := newSession(ctx, op, opts)
	if err != nil {
		return nil, err
	}

	// NoWait would end the call before the image is pushed.
	s.name, s.target, s.kind, s.opts.NoWait = LoadName(target), target, typeLoad, false

	return s, nil
}

// DeployLoad creates the load stack of a stack, or updates it to match the options,
// and pushes its image. The tested stack must exist and export its policies.
//
// Nothing runs in the load stack until a test starts. DeployLoad returns the errors
// of Deploy; a *RefusedError also if docker is missing or fails.
func DeployLoad(ctx context.Context, name string, opts *LoadOptions) (LoadDeployment, error) {
	const op = "deploy"
	l, err := newLoad(ctx, op, name, opts)
	if err != nil {
		return LoadDeployment{}, err
	}
	d, err := l.deploy(ctx)
	l.docker.close(ctx)
	return d, translateError(ctx, op, err)
}

// deploy creates or updates the stack.
func (l *load) deploy(ctx context.Context) (LoadDeployment, error) {
	target, err := l.findTarget(ctx)
	if err != nil {
		return LoadDeployment{}, err
	}

	d := LoadDeployment{Target: l.target}
	d.Deployment, err = l.run(ctx, plan{
		missing: func(ctx context.Context) (Deployment, error) { return l.create(ctx, target, &d) },
		stable: func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
			return l.update(ctx, target, stack, &d)
		},
	})

	d.Complete = err == nil
	return d, err
}

// findTarget returns the tested stack.
func (l *load) findTarget(ctx context.Context) (*cfn.Stack, error) {
	target, err := l.describe(ctx, l.target)
	if err != nil {
		return nil, err
	}

	if stateOf(target) == missing {
		deploy := l.remedy(remedy.Deploy, l.target)
		return nil, remedy.With(fmt.Errorf("stack %q: %w in region %s; %v creates it", l.target, limiter.ErrNotFound,
			l.region, deploy), deploy)
	}

	outputs := outputsOf(target)
	// The load stack imports both policies, so CloudFormation would refuse it
	// later.
	if outputs[outputAcquireOnly] == "" || outputs[outputFullAccess] == "" {
		deploy := l.remedy(remedy.DeployPolicies, l.target)
		return nil, remedy.With(&RefusedError{
			Stack: l.target, Status: string(target.StackStatus),
			Reason: "it exports no policies, which the load test uses; create them with " + deploy.Error(),
		}, deploy)
	}
	return target, nil
}

// create creates the stack, then pushes the image: its repository is in the stack.
func (l *load) create(ctx context.Context, target *cfn.Stack, d *LoadDeployment) (Deployment, error) {
	parameters, err := l.prepare(ctx, target, nil)
	if err != nil {
		return Deployment{}, err
	}

	// The image is built before anything changes in the account, so that a
	// failure of docker leaves no stack without an image.
	if err := l.buildImage(ctx); err != nil {
		return Deployment{}, err
	}

	code, err := l.storeCode(ctx, l.session.opts.Stack.ArtifactBucket)
	if err != nil {
		return Deployment{}, err
	}

	created, err := l.createStack(ctx, code, cloudformation.CreateStackInput{
		TemplateBody: aws.String(loadTemplate),
		Parameters:   cfnParameters(append(parameters, l.codeParameters(code)...)), Tags: cfnTags(l.tags()),
	})
	if err != nil {
		return created, err
	}

	return created, l.pushImage(ctx, created.Outputs[outputRepository], d)
}

// update pushes the image, unless the repository has it, and updates the stack.
func (l *load) update(ctx context.Context, target, stack *cfn.Stack, d *LoadDeployment) (Deployment, error) {
	if err := l.checkUpdatable(stack); err != nil {
		return Deployment{}, err
	}

	parameters, err := l.prepare(ctx, target, stack)
	if err != nil {
		return Deployment{}, err
	}

	// The tag is a hash of all that the image is built from, so an image that
	// the repository has needs no docker.
	repository := outputsOf(stack)[outputRepository]
	d.Image = repository + ":" + l.content.tag()
	if found, err := l.hasImage(ctx, l.content.tag()); err != nil {
		return Deployment{}, err
	} else if !found {
		if err := l.buildImage(ctx); err != nil {
			return Deployment{}, err
		}
		if err := l.pushImage(ctx, repository, d); err != nil {
			return Deployment{}, err
		}
	}

	bucket, _ := l.codeTarget(ctx, stack)
	code, err := l.storeCode(ctx, bucket)
	if err != nil {
		return Deployment{}, err
	}

	return l.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
		TemplateBody: aws.String(loadTemplate),
		Parameters:   cfnParameters(append(parameters, l.codeParameters(code)...)),
		Tags:         cfnTags(mergeTags(tagsOf(*stack), l.tags())),
	})
}

// prepare resolves the settings, and collects the code. It returns the parameters
// but those of the code.
func (l *load) prepare(ctx context.Context, target, deployed *cfn.Stack) ([]parameter, error) {
	settings := l.opts.Load

	if l.opts.Resolve != nil {
		var before *LoadStack
		if deployed != nil {
			before = new(loadStackOf(deployed))
		}
		var err error
		if settings, err = l.opts.Resolve(before); err != nil {
			return nil, &confirmError{err}
		}
	}

	format := outputsOf(target)[outputFormat]
	if err := cmp.Or(settings.Validate(), roleNames.check(format, l.name, loadRoles)); err != nil {
		return nil, err
	}

	tables, err := l.routeTables(ctx, settings, deployed)
	if err != nil {
		return nil, err
	}

	if err := l.collect(ctx); err != nil {
		return nil, err
	}

	topic, _ := parameterOf(*target, paramAlarmTopic)
	return append(settings.parameters(),
		parameter{paramTarget, l.target}, parameter{paramRouteTables, tables}, parameter{paramAlarmTopic, topic},
		parameter{paramBoundary, outputsOf(target)[outputBoundary]}, parameter{paramRoleFormat, format}), nil
}

// collect collects the code, once.
func (l *load) collect(ctx context.Context) (err error) {
	if l.content == nil {
		l.content, err = l.newLoadContent(ctx)
	}
	return err
}

// storeCode uploads the code of the worker function.
func (l *load) storeCode(ctx context.Context, bucket string) (*Code, error) {
	p, err := l.content.pack()
	if err != nil {
		return nil, err
	}
	done := l.opts.Step("uploading the function's code")
	code, err := l.store(ctx, bucket, p)
	done(err)
	return code, err
}

// codeParameters returns the parameters for the code.
func (l *load) codeParameters(code *Code) []parameter {
	return []parameter{{paramCodeBucket, code.Bucket}, {paramCodeKey, code.Key}, {paramImageTag, l.content.tag()}}
}

// tags returns all tags of the stack.
func (l *load) tags() map[string]string {
	return mergeTags(l.session.opts.Stack.Tags, l.discoveryTags(), map[string]string{
		tagVersion: l.session.opts.Version, tagLambdaVersion: l.session.opts.Version,
	})
}

// checkNoLoad refuses to delete a stack that has a load stack: CloudFormation would
// refuse it after minutes, because the load stack imports its policies.
func (s *session) checkNoLoad(ctx context.Context, stack *cfn.Stack) error {
	found, err := s.describe(ctx, LoadName(s.name))
	// Another stack may have this name. It imports nothing, unless it is a load
	// test.
	if err != nil || stateOf(found) == missing || tagsOf(*found)[tagType] != typeLoad {
		return err
	}
	remove := s.remedy(remedy.DeleteLoad, s.target)
	return s.refuse(stack, "its load test "+LoadName(s.name)+" uses its policies; delete that with "+
		remove.Error()+", and delete this again", remove)
}

// checkLoadOwner refuses a stack that is not the load stack of the target.
func (s *session) checkLoadOwner(stack *cfn.Stack) error {
	tags, own := tagsOf(*stack), s.discoveryTags()
	if tags[tagManagedBy] != manager || tags[tagType] != typeLoad || tags[tagName] != own[tagName] {
		return s.refuse(stack, "it is not a load test of zae-limiter; choose another name for the stack to test")
	}
	return nil
}

// checkUpdatable refuses a stack of a newer version or of the Python tool, whose
// resources have the same names and other logical IDs.
func (l *load) checkUpdatable(stack *cfn.Stack) error {
	// CloudFormation would create each resource anew under its other logical
	// ID, and fail because the name is taken.
	if !isGoStack(stack) {
		remove := l.remedy(remedy.DeleteLoad, l.target)
		return l.refuse(stack, "the Python tool deployed it, and its resources cannot be taken over; delete it with "+
			remove.Error()+", and deploy it again", remove)
	}
	return l.checkDowngrade(stack)
}
