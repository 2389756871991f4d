package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type deployOptions struct {
	*kit.Stack
	stack infra.Stack
	// These are the opposites of the stack's No fields.
	aggregator, provisioner, alarms, archive, iam bool
	leanIndex                                     bool // the kind of the index is infra.LeanIndex
	wait, yes, downgrade, reset, tagsOnly, json   bool
	zip, namespace                                string
	untag                                         []string
}

// clearValue is the value of a flag that clears a deployed setting.
const clearValue = "none"

func newDeploy(c *kit.Console) *cobra.Command {
	o := &deployOptions{Stack: &kit.Stack{Console: c}, wait: true}
	o.setStack(infra.Stack{})
	cmd := &cobra.Command{
		Use:   "deploy",
		Short: "Create or update a stack in an AWS account",
		Long: `Create a CloudFormation stack with a table, functions that count usage and apply
declared limits, IAM policies, and alarms; or update an existing one, including
stacks of Python's tool. Settings and tags without a flag stay as deployed,
unless --reset is set. An update shows its changes first and, on a terminal,
asks for confirmation; elsewhere only changes that remove or replace something
need --yes. The table is never replaced. The command can be interrupted and
repeated at any time.

` + kit.StackHelp,
		Example: "  zae-limiter deploy --name my-app\n  zae-limiter deploy -n my-app --permission-boundary " +
			"Bound --tag team=ml --yes\n" +
			"  zae-limiter deploy -n my-app --no-iam --no-aggregator",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDeploy(cmd.Context(), o, cmd.Flags()) },
	}

	o.AddTo(cmd)
	o.flags(cmd)
	kit.AddJSON[deploymentJSON](cmd, &o.json, kit.AnObject, nil)

	return cmd
}

// deploymentJSON is the output of deploy and upgrade as JSON.
type deploymentJSON struct {
	Name      string            `json:"name" doc:"name of the stack and its table"`
	Region    string            `json:"region" doc:"AWS region"`
	StackID   string            `json:"stack_id" doc:"ARN of the stack"`
	Status    string            `json:"status" doc:"status in CloudFormation"`
	Action    string            `json:"action" doc:"created, updated, unchanged or waiting"`
	Complete  bool              `json:"complete" doc:"whether nothing is left to do"`
	Namespace *string           `json:"namespace_id" doc:"ID of the registered namespace"`
	Code      *infra.Code       `json:"code" doc:"code of the functions: bucket, key, sha256, size, uploaded, source"`
	Migrated  []string          `json:"migrated" doc:"versions whose migrations were run"`
	Outputs   map[string]string `json:"outputs" doc:"outputs of the stack"`
}

// setStack sets the flags to the settings of a stack.
func (o *deployOptions) setStack(s infra.Stack) {
	o.stack = s
	o.aggregator, o.provisioner, o.alarms, o.archive, o.iam =
		!s.NoAggregator, !s.NoProvisioner, !s.NoAlarms, !s.NoAuditArchive, !s.NoIAM
	o.leanIndex = s.ResourceIndex == infra.LeanIndex
}

// wanted returns the stack that the flags describe.
func (o *deployOptions) wanted() infra.Stack {
	s := o.stack
	s.Tags = maps.Clone(s.Tags)

	for _, key := range o.untag {
		delete(s.Tags, key)
	}

	for _, value := range []*string{
		&s.AlarmTopicARN, &s.PermissionBoundary, &s.AggregatorRoleARN, &s.ProvisionerRoleARN, &s.ArtifactBucket,
	} {
		if *value == clearValue {
			*value = ""
		}
	}

	s.NoAggregator, s.NoProvisioner, s.NoAlarms, s.NoAuditArchive, s.NoIAM =
		!o.aggregator, !o.provisioner, !o.alarms, !o.archive, !o.iam
	if s.ResourceIndex = infra.FullIndex; o.leanIndex {
		s.ResourceIndex = infra.LeanIndex
	}

	return s
}

func runDeploy(ctx context.Context, o *deployOptions, given *pflag.FlagSet) error {
	if err := o.checkTagsOnly(given); err != nil {
		return err
	}

	name, opts, err := o.Target()
	if err != nil {
		return err
	}

	opts.Stack, opts.Resolve = o.wanted(), func(deployed *infra.Stack) infra.Stack {
		return o.merge(name, deployed, given)
	}

	opts.Zip, opts.NoWait, opts.Downgrade = o.zip, !o.wait, o.downgrade
	opts.Dynamo.Namespace = o.namespace
	opts.Confirm = o.ConfirmChanges(ctx, name, o.yes)

	run := infra.Deploy
	if o.tagsOnly {
		run = infra.Tag
	}

	began := time.Now()
	d, err := run(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	if err := report(o.Stack, d, o.json, time.Since(began)); err != nil {
		return err
	}
	// The table of an incomplete stack cannot be used yet.
	if d.Complete {
		o.SuggestStore(name)
	}

	return nil
}

// merge returns the stack to deploy: the settings of the flags, and for the rest
// those of the deployed stack, if there is one.
func (o *deployOptions) merge(name string, deployed *infra.Stack, given *pflag.FlagSet) infra.Stack {
	wanted := o.wanted()

	if deployed != nil && !o.reset {
		wanted = o.overlay(*deployed, given)
	}

	// The kind of the index is fixed when the table is created, so not even
	// --reset changes it.
	if !given.Changed("lean-index") && !given.Changed("no-lean-index") && deployed != nil {
		wanted.ResourceIndex = deployed.ResourceIndex
	}
	// Functions that run stay on their architecture, unless a flag names
	// another.
	if wanted.Architecture == "" && deployed != nil {
		wanted.Architecture = deployed.Architecture
	}
	if wanted.Architecture == "" {
		wanted.Architecture = infra.DefaultArchitecture(o.zip)
	}

	o.announce(name, wanted.WithDefaults())
	return wanted
}

// checkTagsOnly rejects flags that have no effect with --tags-only.
func (o *deployOptions) checkTagsOnly(given *pflag.FlagSet) (err error) {
	if !o.tagsOnly {
		return nil
	}

	if len(o.stack.Tags) == 0 {
		return kit.Usagef("--tag is missing; --tags-only only adds tags")
	}

	has := []string{"tags-only", "tag", "wait", "no-wait", "yes", "json", "output", "name", "region", "endpoint-url"}
	given.Visit(func(f *pflag.Flag) {
		if !slices.Contains(has, f.Name) && err == nil {
			err = kit.Usagef("--%s has no effect with --tags-only, which only adds tags; leave one of them out", f.Name)
		}
	})

	return err
}

// overlay returns the deployed stack with the settings of the given flags.
func (o *deployOptions) overlay(deployed infra.Stack, given *pflag.FlagSet) infra.Stack {
	// The flags of a second command write into merged, so that each given flag
	// changes only its own setting.
	merged, scratch := &deployOptions{}, &cobra.Command{}
	merged.flags(scratch)
	// Adding a flag stores its default, so the deployed settings come after.
	merged.setStack(deployed)

	given.Visit(func(f *pflag.Flag) {
		twin := scratch.Flags().Lookup(f.Name)
		if twin == nil {
			// The second command lacks the flags that do not describe the
			// stack, such as --name.
			return
		}

		switch said := f.Value.(type) {
		case *kit.NegatedFlag:
			// A negated flag has no text. Its argument is the opposite of the
			// switch it sets.
			_ = twin.Value.Set(strconv.FormatBool(!*said.Of))
		case *kit.Pairs:
			maps.Copy(merged.stack.Tags, *said.All)
		case pflag.SliceValue:
			merged.untag = said.GetSlice()
		default:
			// The text has passed the same parser before, so this cannot fail.
			_ = twin.Value.Set(said.String())
		}
	})
	return merged.wanted()
}

// announce reports the settings to deploy.
func (o *deployOptions) announce(name string, s infra.Stack) {
	o.Say("Deploying %s (region %s):", name, cmp.Or(o.Region, "of the environment"))
	for _, f := range stackSettings(s) {
		o.Say("  %s: %s", f[0], f[1])
	}
}

// stackSettings returns the settings of a stack that announce shows.
func stackSettings(s infra.Stack) [][2]string {
	audit := "kept as before, 90 days in a new table"
	if s.AuditRetentionDays > 0 {
		audit = fmt.Sprintf("kept %d days", s.AuditRetentionDays)
	}

	properties := [][2]string{
		{"usage", fmt.Sprintf("%s, kept %d days", s.SnapshotWindows, s.UsageRetentionDays)},
		{"audit events", audit},
		{"lean index", kit.OnOff(s.ResourceIndex == infra.LeanIndex)},
		{"aggregator", kit.OnOff(s.HasAggregator())},
		{"provisioner", kit.OnOff(s.HasProvisioner())},
	}

	if s.HasAggregator() {
		properties = append(properties,
			[2]string{"function", fmt.Sprintf("%s, %v, %d MB", s.Architecture, s.LambdaTimeout, s.LambdaMemory)},
			[2]string{"audit archive", kit.OnOff(!s.NoAuditArchive)})
	} else if !s.NoAggregator {
		properties = append(properties, [2]string{"note", "without IAM the aggregator needs --aggregator-role-arn"})
	}

	properties = append(properties, [2]string{"alarms", kit.OnOff(!s.NoAlarms)})
	for _, f := range [][2]string{{"alarms are sent to", s.AlarmTopicARN}, {
		"permission boundary", s.PermissionBoundary,
	}} {
		if f[1] != "" {
			properties = append(properties, f)
		}
	}

	properties = append(properties, [2]string{"policies", kit.OnOff(!s.NoIAM)},
		[2]string{"roles for users", kit.OnOff(s.IAMRoles)},
		[2]string{"deletion protection", kit.OnOff(s.DeletionProtection)})
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		properties = append(properties, [2]string{"tag", key + "=" + s.Tags[key]})
	}
	return properties
}

// report reports the deployment on stderr and prints its result.
func report(s *kit.Stack, d infra.Deployment, asJSON bool, took time.Duration) error {
	look := s.Place().Command("status", "--name", d.Name)
	// A busy stack is incomplete, too, but nothing was begun, so its message
	// comes first.
	switch {
	case d.Action == "waiting":
		s.Warn("Stack %s is busy (%s); run this again when %s shows that it is done", d.Name, d.Status, look)
	case !d.Complete:
		s.Warn("Stack %s is being %s; run this again without --no-wait to complete it, %s shows the progress",
			d.Name, d.Action, look)
	case d.Action == "unchanged":
		s.Done("Stack %s is up to date", d.Name)
	default:
		s.Done("Stack %s %s in %s", d.Name, d.Action, tty.Duration(took))
	}
	if d.Code != nil && d.Code.Uploaded {
		s.Say("  code: %s, sha256 %.16s, %s", tty.Bytes(int64(d.Code.Size)), d.Code.SHA256, d.Code.Source)
	}
	for _, v := range d.Migrated {
		s.Say("  migrated to %s", v)
	}
	shape := deploymentJSON{
		d.Name, d.Region, d.StackID, d.Status, d.Action, d.Complete, jsonview.OrNull(d.NamespaceID), d.Code,
		append([]string{}, d.Migrated...), d.Outputs,
	}
	properties := []kit.Property{
		{Name: "name", Value: kit.Text(d.Name)},
		{Name: "region", Value: kit.Text(d.Region)},
		{Name: "status", Value: kit.Text(d.Status)},
		{Name: "action", Value: kit.Text(d.Action)},
		{Name: "stack_id", Value: kit.Text(d.StackID)},
	}
	if d.NamespaceID != "" {
		properties = append(properties, kit.Property{Name: "namespace_id", Value: kit.Text(d.NamespaceID)})
	}
	return kit.PrintProperties(s.Console, asJSON, properties, shape)
}

// flags adds the flags for the settings of a stack.
func (o *deployOptions) flags(cmd *cobra.Command) {
	o.dataFlags(cmd)
	o.functionFlags(cmd)
	o.accessFlags(cmd)

	flags := cmd.Flags()
	kit.AddSwitch(flags, &o.wait, "wait", "no-wait", "wait for the deployment to complete")

	flags.VarP(&kit.Pairs{Flag: "tag", All: &o.stack.Tags}, "tag", "t",
		"tag `KEY=VALUE` for the stack and its resources; repeatable")
	flags.StringArrayVar(&o.untag, "untag", nil, "`KEY` of a tag to remove; repeatable")
	flags.StringVarP(&o.namespace, "namespace", "N", "",
		"`namespace` to register (default $ZAEL_NAMESPACE, else default)")

	flags.BoolVar(&o.tagsOnly, "tags-only", false, "only add the tags of --tag")
	flags.BoolVar(&o.reset, "reset", false, "reset settings without a flag to their defaults")
	flags.BoolVar(&o.downgrade, "downgrade", false, "replace a stack of a newer version")
	kit.AddYes(cmd, &o.yes)
}

const allWindows = "hourly,daily,monthly"

func (o *deployOptions) dataFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.stack.SnapshotWindows, "snapshot-windows", allWindows, "`windows` in which usage is counted")

	const tenYears = 3650
	kit.AddNumber(cmd, &o.stack.UsageRetentionDays, "usage-retention-days", "90", "days to keep usage", 1, tenYears)
	kit.AddNumber(cmd, &o.stack.AuditRetentionDays, "audit-retention-days", "",
		"days to keep audit events (default: as before; 90 in a new table)", 1, tenYears)
	kit.AddNumber(cmd, &o.stack.PITRRecoveryDays, "pitr-recovery-days", "",
		"days for which the table can be restored (default 35)", 1, 35)

	kit.AddSwitch(flags, &o.stack.DeletionProtection, "enable-deletion-protection", "no-deletion-protection",
		"protect the table against deletion")
	kit.AddSwitch(flags, &o.leanIndex, "lean-index", "no-lean-index",
		"keep only keys in the index by resource of a new stack: cheaper writes, but Python's queries of a "+
			"resource find nothing")
	kit.AddSwitch(flags, &o.archive, "enable-audit-archival", "no-audit-archival",
		"archive expired audit events in an S3 bucket")
	kit.AddNumber(cmd, &o.stack.ArchiveGlacierDays, "audit-archive-glacier-days", "90",
		"days until archived events move to cheaper storage", 1, tenYears)
}

func (o *deployOptions) functionFlags(cmd *cobra.Command) {
	flags := cmd.Flags()

	kit.AddSwitch(flags, &o.aggregator, "enable-aggregator", "no-aggregator", "create the function that counts usage")
	kit.AddSwitch(flags, &o.provisioner, "enable-provisioner", "no-provisioner",
		"create the function that applies declared limits")

	kit.AddFlag(cmd, &o.stack.LambdaTimeout, "lambda-timeout", "seconds", "60", "timeout of the aggregator",
		func(text string) (time.Duration, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 900 {
				return 0, errors.New("must be a whole number of seconds from 1 to 900")
			}
			return time.Duration(n) * time.Second, nil
		})
	kit.AddNumber(cmd, &o.stack.LambdaMemory, "lambda-memory", "256", "memory of the aggregator in MB", 128, 3008)
	kit.AddNumber(cmd, &o.stack.LogRetentionDays, "log-retention-days", "30",
		"days to keep logs; CloudWatch supports only some values", 1, 3653)
	kit.AddSwitch(flags, &o.stack.Tracing, "enable-tracing", "no-tracing", "trace the aggregator with X-Ray")

	kit.AddSwitch(flags, &o.alarms, "enable-alarms", "no-alarms", "create CloudWatch alarms")
	flags.StringVar(&o.stack.AlarmTopicARN, "alarm-sns-topic", "",
		"`ARN` of the SNS topic for alarms; \"none\" removes it")

	kit.AddNumber(cmd, &o.stack.DurationThresholdPct, "lambda-duration-threshold-pct", "80",
		"percentage of the timeout that raises an alarm", 1, 100)

	flags.StringVar(&o.stack.Architecture, "architecture", "",
		"`arch` of the functions: arm64 or x86_64 (default: as deployed; for a new stack, that of this "+
			"program if it can be packaged, else arm64)")
	flags.StringVar(&o.zip, "lambda-zip", "", "`file` with the functions' code, from lambda-export")
	flags.StringVar(&o.stack.ArtifactBucket, "artifact-bucket", "",
		"S3 `bucket` for the code; \"none\" for the default (default: create one)")
}

func (o *deployOptions) accessFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	kit.AddSwitch(flags, &o.iam, "iam", "no-iam", "create IAM policies, and roles for the functions")
	kit.AddSwitch(flags, &o.stack.IAMRoles, "create-iam-roles", "no-create-iam-roles",
		"also create roles for applications, administrators and readers")
	flags.StringVar(&o.stack.AggregatorRoleARN, "aggregator-role-arn", "",
		"`ARN` of an existing role for the aggregator; \"none\" to create one")
	flags.StringVar(&o.stack.ProvisionerRoleARN, "provisioner-role-arn", "",
		"`ARN` of an existing role for the provisioner; \"none\" to create one")
	flags.StringVar(&o.stack.PermissionBoundary, "permission-boundary", "",
		"name or ARN of the `policy` that bounds every role; \"none\" removes it")
	flags.StringVar(&o.stack.RoleNameFormat, "role-name-format", "",
		"`format` of role names; {} stands for the default name")
	flags.StringVar(&o.stack.PolicyNameFormat, "policy-name-format", "",
		"`format` of policy names; {} stands for the default name")
}
