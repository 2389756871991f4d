package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addSwitch adds a boolean flag and its opposite.
func addSwitch(flags *pflag.FlagSet, target *bool, on, off, usage string) {
	flags.BoolVar(target, on, *target, usage)
	no := flags.VarPF(&negatedFlag{target}, off, "", "disable --"+on)
	// Without this value, the flag would take the next argument as its own.
	no.NoOptDefVal = "true"
}

// addNumber adds a flag for a whole number from low to high. Other rules are
// checked with the whole stack.
func addNumber(cmd *cobra.Command, target *int, flag, fallback, usage string, low, high int) {
	addFlag(cmd, target, flag, "number", fallback, usage, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
		}
		return n, nil
	})
}

// flags adds the flags for the settings of a stack.
func (o *deployOptions) flags(cmd *cobra.Command) {
	o.dataFlags(cmd)
	o.functionFlags(cmd)
	o.accessFlags(cmd)

	flags := cmd.Flags()
	addSwitch(flags, &o.wait, "wait", "no-wait", "wait for the deployment to complete")

	flags.VarP(&pairs{"tag", &o.stack.Tags}, "tag", "t", "tag `KEY=VALUE` for the stack and its resources; repeatable")
	flags.StringArrayVar(&o.untag, "untag", nil, "`KEY` of a tag to remove; repeatable")
	flags.StringVarP(&o.namespace, "namespace", "N", "",
		"`namespace` to register (default $ZAEL_NAMESPACE, else default)")

	flags.BoolVar(&o.tagsOnly, "tags-only", false, "only add the tags of --tag")
	flags.BoolVar(&o.reset, "reset", false, "reset settings without a flag to their defaults")
	flags.BoolVar(&o.downgrade, "downgrade", false, "replace a stack of a newer version")
	addYes(cmd, &o.yes)
}

const allWindows = "hourly,daily,monthly"

func (o *deployOptions) dataFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.stack.SnapshotWindows, "snapshot-windows", allWindows, "`windows` in which usage is counted")

	const tenYears = 3650
	addNumber(cmd, &o.stack.UsageRetentionDays, "usage-retention-days", "90", "days to keep usage", 1, tenYears)
	addNumber(cmd, &o.stack.AuditRetentionDays, "audit-retention-days", "",
		"days to keep audit events (default: as before; 90 in a new table)", 1, tenYears)
	addNumber(cmd, &o.stack.PITRRecoveryDays, "pitr-recovery-days", "",
		"days for which the table can be restored (default 35)", 1, 35)

	addSwitch(flags, &o.stack.DeletionProtection, "enable-deletion-protection", "no-deletion-protection",
		"protect the table against deletion")
	addSwitch(flags, &o.leanIndex, "lean-index", "no-lean-index",
		"keep only keys in the index by resource of a new stack: cheaper writes, but Python's queries of a "+
			"resource find nothing")
	addSwitch(flags, &o.archive, "enable-audit-archival", "no-audit-archival",
		"archive expired audit events in an S3 bucket")
	addNumber(cmd, &o.stack.ArchiveGlacierDays, "audit-archive-glacier-days", "90",
		"days until archived events move to cheaper storage", 1, tenYears)
}

func (o *deployOptions) functionFlags(cmd *cobra.Command) {
	flags := cmd.Flags()

	addSwitch(flags, &o.aggregator, "enable-aggregator", "no-aggregator", "create the function that counts usage")
	addSwitch(flags, &o.provisioner, "enable-provisioner", "no-provisioner",
		"create the function that applies declared limits")

	addFlag(cmd, &o.stack.LambdaTimeout, "lambda-timeout", "seconds", "60", "timeout of the aggregator",
		func(text string) (time.Duration, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 900 {
				return 0, errors.New("must be a whole number of seconds from 1 to 900")
			}
			return time.Duration(n) * time.Second, nil
		})
	addNumber(cmd, &o.stack.LambdaMemory, "lambda-memory", "256", "memory of the aggregator in MB", 128, 3008)
	addNumber(cmd, &o.stack.LogRetentionDays, "log-retention-days", "30",
		"days to keep logs; CloudWatch supports only some values", 1, 3653)
	addSwitch(flags, &o.stack.Tracing, "enable-tracing", "no-tracing", "trace the aggregator with X-Ray")

	addSwitch(flags, &o.alarms, "enable-alarms", "no-alarms", "create CloudWatch alarms")
	flags.StringVar(&o.stack.AlarmTopicARN, "alarm-sns-topic", "",
		"`ARN` of the SNS topic for alarms; \"none\" removes it")

	addNumber(cmd, &o.stack.DurationThresholdPct, "lambda-duration-threshold-pct", "80",
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
	addSwitch(flags, &o.iam, "iam", "no-iam", "create IAM policies, and roles for the functions")
	addSwitch(flags, &o.stack.IAMRoles, "create-iam-roles", "no-create-iam-roles",
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
