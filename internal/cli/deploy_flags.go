package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addSwitch gives a command a pair of flags, of which one undoes the other.
func addSwitch(flags *pflag.FlagSet, target *bool, on, off, usage string) {
	flags.BoolVar(target, on, *target, usage)
	no := flags.VarPF(&negation{target}, off, "", "the opposite of --"+on)
	no.NoOptDefVal = "true"
}

// addNumber gives a command a flag for a whole number within limits. What else
// it must be is judged with the whole stack.
func addNumber(cmd *cobra.Command, target *int, flag, fallback, usage string, least, most int) {
	addFlag(cmd, target, flag, "number", fallback, usage, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("it has to be a whole number from %d to %d", least, most)
		}
		return n, nil
	})
}

// flags gives deploy all that a stack can be.
func (o *deployOptions) flags(cmd *cobra.Command) {
	o.dataFlags(cmd)
	o.functionFlags(cmd)
	o.accessFlags(cmd)
	flags := cmd.Flags()
	addSwitch(flags, &o.wait, "wait", "no-wait", "wait until all is ready")
	flags.VarP(&pairs{"tag", &o.stack.Tags}, "tag", "t", "a `KEY=VALUE` for the stack and all in it; may be given again")
	flags.StringArrayVar(&o.untag, "untag", nil, "a `KEY` of a tag to take away; may be given again")
	flags.StringVarP(&o.namespace, "namespace", "N", "", "`namespace` to register (default $ZAEL_NAMESPACE, else default)")
	flags.BoolVar(&o.tagsOnly, "tags-only", false, "change nothing but the stack's tags")
	flags.BoolVar(&o.reset, "reset", false, "have defaults for all that no flag says, instead of what is deployed")
	flags.BoolVar(&o.downgrade, "downgrade", false, "replace what a newer version has deployed")
	addYes(cmd, &o.yes)
}

const allWindows = "hourly,daily,monthly"

func (o *deployOptions) dataFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.stack.SnapshotWindows, "snapshot-windows", allWindows, "`windows` that usage is counted in")
	const tenYears = 3650
	addNumber(cmd, &o.stack.UsageRetentionDays, "usage-retention-days", "90", "how long usage is kept", 1, tenYears)
	addNumber(cmd, &o.stack.AuditRetentionDays, "audit-retention-days", "", "how long audit events are kept (default: as before, 90 at first)", 1, tenYears)
	addNumber(cmd, &o.stack.PITRRecoveryDays, "pitr-recovery-days", "", "how far back the table can be restored (default: 35)", 1, 35)
	addSwitch(flags, &o.stack.DeletionProtection, "enable-deletion-protection", "no-deletion-protection", "have AWS refuse to delete the table")
	addSwitch(flags, &o.archive, "enable-audit-archival", "no-audit-archival", "keep expired audit events in a bucket")
	addNumber(cmd, &o.stack.ArchiveGlacierDays, "audit-archive-glacier-days", "90", "when they move to cheaper storage", 1, tenYears)
}

func (o *deployOptions) functionFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addSwitch(flags, &o.aggregator, "enable-aggregator", "no-aggregator", "have a function that counts usage")
	addSwitch(flags, &o.provisioner, "enable-provisioner", "no-provisioner", "have a function that applies declared limits")
	addFlag(cmd, &o.stack.LambdaTimeout, "lambda-timeout", "seconds", "60", "of the aggregator", func(text string) (time.Duration, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 900 {
			return 0, fmt.Errorf("it has to be a whole number of seconds from 1 to 900")
		}
		return time.Duration(n) * time.Second, nil
	})
	addNumber(cmd, &o.stack.LambdaMemory, "lambda-memory", "256", "of the aggregator, in MB", 128, 3008)
	addNumber(cmd, &o.stack.LogRetentionDays, "log-retention-days", "30", "how long logs are kept; CloudWatch knows some numbers only", 1, 3653)
	addSwitch(flags, &o.stack.Tracing, "enable-tracing", "no-tracing", "trace the aggregator with X-Ray")
	addSwitch(flags, &o.alarms, "enable-alarms", "no-alarms", "have alarms")
	flags.StringVar(&o.stack.AlarmTopicARN, "alarm-sns-topic", "", "`ARN` of the topic that alarms are sent to, or none")
	addNumber(cmd, &o.stack.DurationThresholdPct, "lambda-duration-threshold-pct", "80", "of the timeout, when an alarm is raised", 1, 100)
	flags.StringVar(&o.stack.Architecture, "architecture", "", "of the functions: arm64 or x86_64 (default: as deployed; at first that of this program if it can be packed, else arm64)")
	flags.StringVar(&o.zip, "lambda-zip", "", "`file` with the functions' code, such as lambda-export writes")
	flags.StringVar(&o.stack.ArtifactBucket, "artifact-bucket", "", "`bucket` for that code, or none (default: one is made)")
}

func (o *deployOptions) accessFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addSwitch(flags, &o.iam, "iam", "no-iam", "make policies, and roles for the functions")
	addSwitch(flags, &o.stack.IAMRoles, "create-iam-roles", "no-create-iam-roles", "also make roles for applications, administrators and readers")
	flags.StringVar(&o.stack.AggregatorRoleARN, "aggregator-role-arn", "", "`ARN` of a role for the aggregator, or none to have one made")
	flags.StringVar(&o.stack.ProvisionerRoleARN, "provisioner-role-arn", "", "`ARN` of a role for the provisioner, or none to have one made")
	flags.StringVar(&o.stack.PermissionBoundary, "permission-boundary", "", "name or ARN of a `policy` that bounds every role, or none")
	flags.StringVar(&o.stack.RoleNameFormat, "role-name-format", "", "`format` of role names, with {} for ours; {} alone is the default")
	flags.StringVar(&o.stack.PolicyNameFormat, "policy-name-format", "", "`format` of policy names, with {} for ours; {} alone is the default")
}
