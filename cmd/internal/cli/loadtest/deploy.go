package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

type deployOptions struct {
	loadCode
	load     infra.LoadStack
	endpoint bool // the opposite of NoDynamoDBEndpoint
	tags     map[string]string
	bucket   string
	yes      bool
}

func newDeploy(c *kit.Console) *cobra.Command {
	o := &deployOptions{loadCode: loadCode{Stack: &kit.Stack{Console: c}}, endpoint: true}
	cmd := &cobra.Command{
		Use:   "deploy",
		Short: "Create or update the stack for load tests",
		Long: `Create a CloudFormation stack for load tests of another stack, or update it: a
task with a Locust master, the function of its workers, a repository with their
image, and roles. Its name adds -load to the name of the tested stack. Nothing
runs in it until a test starts; AWS bills its alarms, endpoints and images.
Settings without a flag stay as deployed. The command can be interrupted and
repeated at any time.

The subnets need a way to ECR, CloudWatch Logs and Lambda, such as a NAT
gateway. A terminal is asked for a VPC and subnets that are missing.

` + loadCodeHelp + `

` + kit.StackHelp,
		Example: "  zae-limiter loadtest deploy -n my-app --vpc-id vpc-0123456789abcdef0 \\\n    " +
			"--subnet-ids subnet-0123456789abcdef0,subnet-0123456789abcdef1\n" +
			"  zae-limiter loadtest deploy -n my-app --max-workers 500 --yes",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDeploy(cmd.Context(), o, cmd.Flags()) },
	}

	o.addTo(cmd)
	o.flags(cmd)

	return cmd
}

func (o *deployOptions) flags(cmd *cobra.Command) {
	flags := cmd.Flags()

	flags.StringVar(&o.load.VPC, "vpc-id", "", "`ID` of the VPC for the master and its workers")
	flags.StringSliceVar(&o.load.Subnets, "subnet-ids", nil,
		"`IDs` of two or more subnets of the VPC, separated by commas")

	kit.AddNumber(cmd, &o.load.MaxWorkers, "max-workers", "100", "maximum number of workers", 1, 1000)
	kit.AddNumber(cmd, &o.load.UsersPerWorker, "users-per-worker", "10", "users that one worker runs", 1, 100_000)
	kit.AddNumber(cmd, &o.load.MinWorkers, "min-workers", "1", "workers that stay connected between two tests", 1, 1000)
	kit.AddFlag(cmd, &o.load.StartupLead, "startup-lead-time", "seconds", "20", "time that a worker takes to connect",
		func(text string) (time.Duration, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > 120 {
				return 0, errors.New("must be a whole number of seconds from 0 to 120")
			}

			if n == 0 {
				// In a LoadStack 0 is the default, so -1 stands for none.
				return -1, nil
			}
			return time.Duration(n) * time.Second, nil
		})

	kit.AddFlag(cmd, &o.load.Timeout, "lambda-timeout", "minutes", "5",
		"timeout of a worker, after which another takes over", func(text string) (time.Duration, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 15 {
				return 0, errors.New("must be a whole number of minutes from 1 to 15")
			}
			return time.Duration(n) * time.Minute, nil
		})

	kit.AddNumber(cmd, &o.load.Memory, "lambda-memory", "1769", "memory of a worker in MB; 1769 is one processor", 128,
		10_240)
	kit.AddFlag(cmd, &o.load.CapacityProvider, "capacity-provider", "name", infra.FargateSpot,
		"where the master runs: FARGATE_SPOT or FARGATE", func(text string) (string, error) {
			if text != infra.FargateSpot && text != infra.Fargate {
				return "", errors.New("must be " + infra.FargateSpot + " or " + infra.Fargate)
			}
			return text, nil
		})

	kit.AddSwitch(flags, &o.load.SSMEndpoints, "ssm-endpoint", "no-ssm-endpoint",
		"create interface endpoints for Systems Manager, which bill by the hour")
	kit.AddSwitch(flags, &o.endpoint, "dynamodb-endpoint", "no-dynamodb-endpoint",
		"create a gateway endpoint for DynamoDB, unless the VPC has one")

	flags.VarP(&kit.Pairs{Flag: "tag", All: &o.tags}, "tag", "t",
		"tag `KEY=VALUE` for the stack and its resources; repeatable")
	flags.StringVar(&o.bucket, "artifact-bucket", "",
		"existing S3 `bucket` for the function's code (default: create one)")

	kit.AddYes(cmd, &o.yes)
}

func runDeploy(ctx context.Context, o *deployOptions, given *pflag.FlagSet) error {
	name, opts, err := o.options()
	if err != nil {
		return err
	}

	opts.Options.Stack.Tags, opts.Options.Stack.ArtifactBucket = o.tags, o.bucket

	opts.Options.Confirm = o.confirmLoad(ctx, infra.LoadName(name), o.yes)
	opts.Resolve = func(deployed *infra.LoadStack) (infra.LoadStack, error) {
		return o.resolve(ctx, name, deployed, given)
	}

	began := time.Now()
	d, err := infra.DeployLoad(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	return o.report(d, time.Since(began))
}

// resolve returns the stack to deploy: the settings of the flags, and for the rest
// those of the deployed stack, if there is one. It asks for a missing network.
func (o *deployOptions) resolve(
	ctx context.Context, name string, deployed *infra.LoadStack, given *pflag.FlagSet,
) (infra.LoadStack, error) {
	wanted := infra.LoadStack{}
	if deployed != nil {
		wanted = *deployed
	}
	// Only the given flags override the deployed settings, since the others
	// hold their defaults.
	for flag, apply := range map[string]func(){
		"vpc-id":            func() { wanted.VPC = o.load.VPC },
		"subnet-ids":        func() { wanted.Subnets = o.load.Subnets },
		"max-workers":       func() { wanted.MaxWorkers = o.load.MaxWorkers },
		"users-per-worker":  func() { wanted.UsersPerWorker = o.load.UsersPerWorker },
		"min-workers":       func() { wanted.MinWorkers = o.load.MinWorkers },
		"startup-lead-time": func() { wanted.StartupLead = o.load.StartupLead },
		"lambda-timeout":    func() { wanted.Timeout = o.load.Timeout },
		"lambda-memory":     func() { wanted.Memory = o.load.Memory },
		"capacity-provider": func() { wanted.CapacityProvider = o.load.CapacityProvider },
	} {
		if given.Changed(flag) {
			apply()
		}
	}

	if given.Changed("ssm-endpoint") || given.Changed("no-ssm-endpoint") {
		wanted.SSMEndpoints = o.load.SSMEndpoints
	}
	if given.Changed("dynamodb-endpoint") || given.Changed("no-dynamodb-endpoint") {
		wanted.NoDynamoDBEndpoint = !o.endpoint
	}

	if err := o.askNetwork(ctx, &wanted); err != nil {
		return wanted, err
	}

	o.announceLoad(name, wanted.WithDefaults())
	return wanted, nil
}

// askNetwork asks for the VPC and the subnets if they are missing.
func (o *deployOptions) askNetwork(ctx context.Context, s *infra.LoadStack) (err error) {
	if (s.VPC == "" || len(s.Subnets) == 0) && !o.CanAsk {
		return kit.Usagef(
			"--vpc-id and --subnet-ids are required for a new stack; there is no terminal to ask for them")
	}

	if s.VPC == "" {
		if s.VPC, err = o.ReadAnswer(ctx, "VPC for the load test (vpc-...)"); err != nil {
			return err
		}
	}

	if len(s.Subnets) > 0 {
		return nil
	}

	answer, err := o.ReadAnswer(ctx, "Two or more subnets of "+tty.Visible(s.VPC)+", separated by commas")
	s.Subnets = strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ' ' })
	return err
}

// announceLoad reports the settings to deploy.
func (o *deployOptions) announceLoad(name string, s infra.LoadStack) {
	o.Say("Deploying %s, for load tests of %s:", infra.LoadName(name), name)
	o.Say("  network: %s, %s", s.VPC, strings.Join(s.Subnets, ", "))
	o.Say("  workers: %d to %d, %d users each, %s, %d MB", s.MinWorkers, s.MaxWorkers, s.UsersPerWorker,
		tty.Duration(s.Timeout), s.Memory)
	o.Say("  master: %s", s.CapacityProvider)
	o.Say("  endpoints: DynamoDB %s, Systems Manager %s", kit.OnOff(!s.NoDynamoDBEndpoint), kit.OnOff(s.SSMEndpoints))
}

// confirmLoad returns a function like that of ConfirmChanges. Every new image
// replaces the description of the task, which is not worth a question.
func (o *deployOptions) confirmLoad(ctx context.Context, stack string, yes bool) func([]infra.Change) error {
	return func(changes []infra.Change) error {
		var asked []infra.Change
		for _, c := range changes {
			if c.Type != "AWS::ECS::TaskDefinition" {
				asked = append(asked, c)
			} else {
				o.Say("  %s", kit.ChangeLine(c))
			}
		}

		if len(asked) == 0 {
			return nil
		}
		return o.ConfirmChanges(ctx, stack, yes)(asked)
	}
}

// report reports the deployment on stderr and prints its result.
func (l *loadCode) report(d infra.LoadDeployment, took time.Duration) error {
	if d.Action == "unchanged" {
		l.Done("Stack %s is up to date", d.Name)
	} else {
		l.Done("Stack %s %s in %s", d.Name, d.Action, tty.Duration(took))
	}

	if d.Pushed {
		l.Say("  pushed %s", d.Image)
	}

	shape := deploymentJSON{
		d.Name, d.Target, d.Region, d.StackID, d.Status, d.Action, d.Image, d.Pushed, d.Code, d.Outputs,
	}

	return kit.PrintProperties(l.Console, l.json, []kit.Property{
		{Name: "name", Value: kit.Text(d.Name)},
		{Name: "target", Value: kit.Text(d.Target)},
		{Name: "region", Value: kit.Text(d.Region)},
		{Name: "status", Value: kit.Text(d.Status)},
		{Name: "action", Value: kit.Text(d.Action)},
		{Name: "image", Value: kit.Text(d.Image)},
	}, shape)
}

// deploymentJSON is the output of loadtest deploy and push as JSON.
type deploymentJSON struct {
	Name    string            `json:"name" doc:"name of the load stack"`
	Target  string            `json:"target" doc:"name of the stack that it tests"`
	Region  string            `json:"region" doc:"AWS region"`
	StackID string            `json:"stack_id" doc:"ARN of the load stack"`
	Status  string            `json:"status" doc:"status in CloudFormation"`
	Action  string            `json:"action" doc:"created, updated or unchanged"`
	Image   string            `json:"image" doc:"image of the containers, with its tag"`
	Pushed  bool              `json:"pushed" doc:"whether the image was pushed; false if the repository had it"`
	Code    *infra.Code       `json:"code" doc:"code of the function: bucket, key, sha256, size, uploaded, source"`
	Outputs map[string]string `json:"outputs" doc:"outputs of the stack"`
}

// step returns a function that reports a step of a deployment, and when it is done.
func step(c *kit.Console) func(text string) (done func(error)) {
	return func(text string) (done func(error)) {
		began := time.Now()
		c.Say("  %s", text)
		stop := c.Progress(func() string { return text + ": " + tty.Duration(time.Since(began).Truncate(time.Second)) })

		return func(err error) {
			stop()
			if took := time.Since(began); err == nil && took > kit.ProgressAfter {
				c.Say("  %s", fmt.Sprintf("done in %s", tty.Duration(took)))
			}
		}
	}
}

// loadCode selects a stack to test and the code of its load stack.
type loadCode struct {
	*kit.Stack
	dir, program string
	json         bool
}

// loadCodeHelp describes in the help what the image holds.
const loadCodeHelp = `Image and function hold this program, or --binary, and all files of -C but
hidden ones. docker builds the image for linux/amd64, and installs what a
requirements.txt in -C lists.`

// addTo adds the flags of the stack and the code to a command.
func (l *loadCode) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.Name, "name", "n", "", "`name` of the stack to test")
	l.AddPlace(cmd)
	cmd.Flags().StringVarP(&l.dir, "directory", "C", ".", "`folder` with scenarios")
	cmd.Flags().StringVar(&l.program, "binary", "",
		"`program` with scenarios of one's own, for Linux on x86_64, whose main function calls loadtest.Main "+
			"(default: this program)")
	kit.AddJSON[deploymentJSON](cmd, &l.json, kit.AnObject, nil)
}

// options returns the name of the stack to test and the options for calls about its
// load stack.
func (l *loadCode) options() (name string, opts infra.LoadOptions, err error) {
	name, given, err := l.Target()
	return name, infra.LoadOptions{
		Options: given, Dir: l.dir, Program: l.program, Locust: locust.Version, Step: step(l.Console),
	}, err
}

func newPush(c *kit.Console) *cobra.Command {
	l := &loadCode{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Update the image and the code of a load test",
		Long: `Build the image of a load test, push it to the repository of its stack, and
update the code of the worker function through CloudFormation. Settings stay as
deployed. A running task keeps its image.

` + loadCodeHelp + `

` + kit.StackHelp,
		Example: "  zae-limiter loadtest push -n my-app -C scenarios",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPush(cmd.Context(), l) },
	}

	l.addTo(cmd)
	return cmd
}

func runPush(ctx context.Context, l *loadCode) error {
	name, opts, err := l.options()
	if err != nil {
		return err
	}

	began := time.Now()
	d, err := infra.PushLoad(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	return l.report(d, time.Since(began))
}
