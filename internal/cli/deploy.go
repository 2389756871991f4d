package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/infra"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type deployOptions struct {
	*stackConnection
	stack                                         infra.Stack
	aggregator, provisioner, alarms, archive, iam bool // what a stack says it has not
	wait, yes, downgrade, reset, tagsOnly, json   bool
	zip, namespace                                string
	untag                                         []string
}

// takenAway is what a flag says to have nothing in the place of what is deployed.
const takenAway = "none"

func newDeploy(c *console) *cobra.Command {
	o := &deployOptions{stackConnection: &stackConnection{console: c}, wait: true}
	o.is(infra.Stack{})
	cmd := &cobra.Command{
		Use:   "deploy",
		Short: "Put a store into an AWS account, or change it",
		Long: `Makes a CloudFormation stack with the table, the functions that count usage and
apply declared limits, policies for those who use it, and alarms; or changes the
one that is there, also if Python's tool made it. What no flag says stays as it
is deployed, tags too, unless --reset is given. What an update would do is shown
before it runs, and on a terminal asked; elsewhere only changes that remove or
replace something need --yes. The table is never replaced. It may be interrupted
and called again at any time.

` + stackHelp,
		Example: "  zae-limiter deploy --name my-app\n  zae-limiter deploy -n my-app --permission-boundary Bound --tag team=ml --yes\n" +
			"  zae-limiter deploy -n my-app --no-iam --no-aggregator",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDeploy(cmd.Context(), o, cmd.Flags()) },
	}
	o.addTo(cmd)
	o.flags(cmd)
	addJSON[deploymentShape](cmd, &o.json, anObject, nil)
	return cmd
}

// deploymentShape is what deploy and upgrade print.
type deploymentShape struct {
	Name      string            `json:"name" doc:"of the stack and its table"`
	Region    string            `json:"region" doc:"it is in"`
	StackID   string            `json:"stack_id" doc:"its ARN"`
	Status    string            `json:"status" doc:"of the stack, as CloudFormation says"`
	Action    string            `json:"action" doc:"created, updated, unchanged or waiting"`
	Complete  bool              `json:"complete" doc:"nothing is left to be done"`
	Namespace *string           `json:"namespace_id" doc:"of the namespace that was registered"`
	Code      *infra.Code       `json:"code" doc:"of the functions: bucket, key, sha256, size, uploaded, source"`
	Migrated  []string          `json:"migrated" doc:"versions whose migrations were run"`
	Outputs   map[string]string `json:"outputs" doc:"of the stack"`
}

// is makes the flags say what a stack is.
func (o *deployOptions) is(s infra.Stack) {
	o.stack = s
	o.aggregator, o.provisioner, o.alarms, o.archive, o.iam = !s.NoAggregator, !s.NoProvisioner, !s.NoAlarms, !s.NoAuditArchive, !s.NoIAM
}

// wanted is the stack that the flags say.
func (o *deployOptions) wanted() infra.Stack {
	s := o.stack
	s.Tags = maps.Clone(s.Tags)
	for _, key := range o.untag {
		delete(s.Tags, key)
	}
	for _, value := range []*string{&s.AlarmTopicARN, &s.PermissionBoundary, &s.AggregatorRoleARN, &s.ProvisionerRoleARN, &s.ArtifactBucket} {
		if *value == takenAway {
			*value = ""
		}
	}
	s.NoAggregator, s.NoProvisioner, s.NoAlarms, s.NoAuditArchive, s.NoIAM = !o.aggregator, !o.provisioner, !o.alarms, !o.archive, !o.iam
	return s
}

func runDeploy(ctx context.Context, o *deployOptions, given *pflag.FlagSet) error {
	if err := o.checkTagsOnly(given); err != nil {
		return err
	}
	name, opts, err := o.target()
	if err != nil {
		return err
	}
	opts.Stack, opts.Resolve = o.wanted(), func(deployed *infra.Stack) infra.Stack { return o.settle(name, deployed, given) }
	opts.Zip, opts.NoWait, opts.Downgrade = o.zip, !o.wait, o.downgrade
	opts.Dynamo.Namespace = o.namespace
	opts.Confirm = o.confirmChanges(ctx, name, o.yes)
	run := infra.Deploy
	if o.tagsOnly {
		run = infra.Tag
	}
	began := time.Now()
	d, err := run(ctx, name, &opts)
	if err != nil {
		return stackError(err)
	}
	if err := o.tell(d, o.json, time.Since(began)); err != nil {
		return err
	}
	if d.Complete {
		o.sayStore(name)
	}
	return nil
}

// settle is the stack to deploy: what the flags say, and for the rest what is
// deployed.
func (o *deployOptions) settle(name string, deployed *infra.Stack, given *pflag.FlagSet) infra.Stack {
	wanted := o.wanted()
	if deployed != nil && !o.reset {
		wanted = o.over(*deployed, given)
	}
	if wanted.Architecture == "" && deployed != nil {
		wanted.Architecture = deployed.Architecture
	}
	if wanted.Architecture == "" {
		wanted.Architecture = infra.DefaultArchitecture(o.zip)
	}
	o.announce(name, wanted.WithDefaults())
	return wanted
}

// checkTagsOnly refuses flags that would have no effect.
func (o *deployOptions) checkTagsOnly(given *pflag.FlagSet) (err error) {
	if !o.tagsOnly {
		return nil
	}
	if len(o.stack.Tags) == 0 {
		return usagef("--tags-only changes nothing without --tag; give it, or leave that out")
	}
	has := []string{"tags-only", "tag", "wait", "no-wait", "yes", "json", "name", "region", "endpoint-url"}
	given.Visit(func(f *pflag.Flag) {
		if !slices.Contains(has, f.Name) && err == nil {
			err = usagef("--tags-only changes nothing but tags, so --%s would have no effect; leave one of them out", f.Name)
		}
	})
	return err
}

// over is a stack with what flags say instead of what it has.
func (o *deployOptions) over(deployed infra.Stack, given *pflag.FlagSet) infra.Stack {
	merged, scratch := &deployOptions{}, &cobra.Command{}
	merged.flags(scratch)
	merged.is(deployed)
	given.Visit(func(f *pflag.Flag) {
		twin := scratch.Flags().Lookup(f.Name)
		if twin == nil {
			return
		}
		switch said := f.Value.(type) {
		case *negation:
			_ = twin.Value.Set(strconv.FormatBool(!*said.of))
		case *pairs:
			maps.Copy(merged.stack.Tags, *said.all)
		case pflag.SliceValue:
			merged.untag = said.GetSlice()
		default:
			_ = twin.Value.Set(said.String()) // as it was set once
		}
	})
	return merged.wanted()
}

// announce says what is going to be deployed.
func (o *deployOptions) announce(name string, s infra.Stack) {
	o.say("Deploying %s (region %s):", name, cmp.Or(o.region, "of the environment"))
	for _, f := range stackFacts(s) {
		o.say("  %s: %s", f[0], f[1])
	}
}

// stackFacts are what a person wants to see of a stack that is to be made.
func stackFacts(s infra.Stack) [][2]string {
	audit := "kept as long as before, 90 days in a new table"
	if s.AuditRetentionDays > 0 {
		audit = fmt.Sprintf("kept %d days", s.AuditRetentionDays)
	}
	facts := [][2]string{
		{"usage", fmt.Sprintf("%s, kept %d days", s.SnapshotWindows, s.UsageRetentionDays)},
		{"audit events", audit},
		{"aggregator", onOff(s.HasAggregator())},
		{"provisioner", onOff(s.HasProvisioner())},
	}
	if s.HasAggregator() {
		facts = append(facts, [2]string{"function", fmt.Sprintf("%s, %v, %d MB", s.Architecture, s.LambdaTimeout, s.LambdaMemory)},
			[2]string{"audit archive", onOff(!s.NoAuditArchive)})
	} else if !s.NoAggregator {
		facts = append(facts, [2]string{"note", "without IAM the aggregator needs --aggregator-role-arn"})
	}
	facts = append(facts, [2]string{"alarms", onOff(!s.NoAlarms)})
	for _, f := range [][2]string{{"alarms are sent to", s.AlarmTopicARN}, {"permission boundary", s.PermissionBoundary}} {
		if f[1] != "" {
			facts = append(facts, f)
		}
	}
	facts = append(facts, [2]string{"policies", onOff(!s.NoIAM)}, [2]string{"roles for users", onOff(s.IAMRoles)},
		[2]string{"deletion protection", onOff(s.DeletionProtection)})
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		facts = append(facts, [2]string{"tag", key + "=" + s.Tags[key]})
	}
	return facts
}

func onOff(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}

// tell says what was done, and prints it for programs.
func (s *stackConnection) tell(d infra.Deployment, asJSON bool, took time.Duration) error {
	look := s.place().Command("status", "--name", d.Name)
	switch {
	case d.Action == "waiting":
		s.warn("Stack %s is busy (%s); %s shows when it is done, then call this again", d.Name, d.Status, look)
	case !d.Complete:
		s.warn("Stack %s is being %s; call this again without --no-wait to finish, %s shows how far it is", d.Name, d.Action, look)
	case d.Action == "unchanged":
		s.done("Stack %s is as it should be", d.Name)
	default:
		s.done("Stack %s %s in %s", d.Name, d.Action, tty.Duration(took))
	}
	if d.Code != nil && d.Code.Uploaded {
		s.say("  code: %s, sha256 %.16s, %s", tty.Bytes(int64(d.Code.Size)), d.Code.SHA256, d.Code.Source)
	}
	for _, v := range d.Migrated {
		s.say("  migrated to %s", v)
	}
	shape := deploymentShape{
		d.Name, d.Region, d.StackID, d.Status, d.Action, d.Complete, orNull(d.NamespaceID), d.Code, append([]string{}, d.Migrated...), d.Outputs,
	}
	facts := []fact{
		{"name", text(d.Name)}, {"region", text(d.Region)}, {"status", text(d.Status)}, {"action", text(d.Action)}, {"stack_id", text(d.StackID)},
	}
	if d.NamespaceID != "" {
		facts = append(facts, fact{"namespace_id", text(d.NamespaceID)})
	}
	return printFacts(s.console, asJSON, facts, shape)
}
