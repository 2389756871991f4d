package cli

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// flags adds the flags for the settings of a stack.
func (o *deployOptions) flags(cmd *cobra.Command) {
	o.dataFlags(cmd)
	o.functionFlags(cmd)
	o.accessFlags(cmd)

	flags := cmd.Flags()
	kit.AddSwitch(flags, &o.wait, "wait", "no-wait", "wait for the deployment to complete")

	flags.VarP(&kit.Pairs{Flag: "tag", All: &o.stack.Tags}, "tag", "t", "tag `KEY=VALUE` for the stack and its resources; repeatable")
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
