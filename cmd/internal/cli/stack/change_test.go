package stack

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func TestChangesThatNeedConfirmation(t *testing.T) {
	harmless := []infra.Change{{Action: "Add", Resource: "New"}, {
		Action: "Modify", Resource: "Function", Replacement: "False",
	}}
	for name, test := range map[string]struct {
		change      infra.Change
		terminal    bool
		yes, passes bool
	}{
		"nothing is lost":                {passes: true},
		"nothing is lost, on a terminal": {terminal: true},
		"a removal":                      {change: infra.Change{Action: "Remove"}},
		"a replacement":                  {change: infra.Change{Action: "Modify", Replacement: "True"}},
		"perhaps a replacement":          {change: infra.Change{Action: "Modify", Replacement: "Conditional"}},
		"unknown":                        {change: infra.Change{Action: "Dynamic"}},
		"agreed before": {
			change: infra.Change{Action: "Remove"}, terminal: true, yes: true, passes: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &kit.Stack{Console: &kit.Console{
				In: strings.NewReader("n\n"), Err: io.Discard, CanAsk: test.terminal,
			}}
			changes := harmless
			if test.change.Action != "" {
				changes = append(changes[:2:2], test.change)
			}
			if err := s.ConfirmChanges(t.Context(), "my-app", test.yes)(changes); (err == nil) != test.passes {
				t.Error(err)
			}
		})
	}
}

// flagged returns the deployed stack with the settings of the flags.
func flagged(t *testing.T, deployed infra.Stack, args ...string) infra.Stack {
	t.Helper()
	o := &deployOptions{Stack: &kit.Stack{Console: &kit.Console{Err: io.Discard}}}
	o.setStack(infra.Stack{})
	cmd := &cobra.Command{}
	o.flags(cmd)
	if err := cmd.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return o.merge("my-app", &deployed, cmd.Flags())
}

// unlike returns a stack that has no field at its default.
func unlike() infra.Stack {
	return infra.Stack{
		SnapshotWindows: "monthly", UsageRetentionDays: 1, AuditRetentionDays: 2, PITRRecoveryDays: 3,
		DeletionProtection: true, ResourceIndex: infra.LeanIndex,
		NoAggregator: true, NoProvisioner: true, Architecture: infra.X8664, LambdaTimeout: 7 * time.Second,
		LambdaMemory: 128, Tracing: true, LogLevel: "DEBUG", LogRetentionDays: 5,
		NoAuditArchive: true, ArchiveGlacierDays: 6, NoAlarms: true, AlarmTopicARN: "topic", DurationThresholdPct: 33,
		NoIAM: true, IAMRoles: true, AggregatorRoleARN: "a", ProvisionerRoleARN: "p", PermissionBoundary: "b",
		RoleNameFormat: "r-{}", PolicyNameFormat: "{}-p",
		ArtifactBucket: "mine", Tags: map[string]string{"team": "a", "env": "dev"},
	}
}

// Every flag of a stack replaces one deployed setting, and no other.
func TestFlagsOverrideTheDeployedStack(t *testing.T) {
	ignored := cmpopts.IgnoreUnexported(infra.Stack{})
	if diff := cmp.Diff(unlike(), flagged(t, unlike()), ignored); diff != "" {
		t.Error(diff)
	}
	tried := map[string]bool{}
	for args, change := range map[string]func(*infra.Stack){
		"--snapshot-windows hourly,daily,monthly": func(s *infra.Stack) { s.SnapshotWindows = "hourly,daily,monthly" },
		"--usage-retention-days 90":               func(s *infra.Stack) { s.UsageRetentionDays = 90 },
		"--audit-retention-days 90":               func(s *infra.Stack) { s.AuditRetentionDays = 90 },
		"--pitr-recovery-days 35":                 func(s *infra.Stack) { s.PITRRecoveryDays = 35 },
		"--no-deletion-protection":                func(s *infra.Stack) { s.DeletionProtection = false },
		"--enable-deletion-protection=false":      func(s *infra.Stack) { s.DeletionProtection = false },
		"--no-lean-index":                         func(s *infra.Stack) { s.ResourceIndex = infra.FullIndex },
		"--lean-index=false":                      func(s *infra.Stack) { s.ResourceIndex = infra.FullIndex },
		"--enable-audit-archival":                 func(s *infra.Stack) { s.NoAuditArchive = false },
		"--no-audit-archival=false":               func(s *infra.Stack) { s.NoAuditArchive = false },
		"--audit-archive-glacier-days 90":         func(s *infra.Stack) { s.ArchiveGlacierDays = 90 },
		"--enable-aggregator":                     func(s *infra.Stack) { s.NoAggregator = false },
		"--no-aggregator=false":                   func(s *infra.Stack) { s.NoAggregator = false },
		"--enable-provisioner":                    func(s *infra.Stack) { s.NoProvisioner = false },
		"--no-provisioner --enable-provisioner":   func(s *infra.Stack) { s.NoProvisioner = false },
		"--lambda-timeout 60":                     func(s *infra.Stack) { s.LambdaTimeout = time.Minute },
		"--lambda-memory 256":                     func(s *infra.Stack) { s.LambdaMemory = 256 },
		"--log-retention-days 30":                 func(s *infra.Stack) { s.LogRetentionDays = 30 },
		"--enable-tracing --no-tracing":           func(s *infra.Stack) { s.Tracing = false },
		"--enable-alarms":                         func(s *infra.Stack) { s.NoAlarms = false },
		"--no-alarms=false":                       func(s *infra.Stack) { s.NoAlarms = false },
		"--alarm-sns-topic none":                  func(s *infra.Stack) { s.AlarmTopicARN = "" },
		"--lambda-duration-threshold-pct 80":      func(s *infra.Stack) { s.DurationThresholdPct = 80 },
		"--architecture arm64":                    func(s *infra.Stack) { s.Architecture = infra.ARM64 },
		"--artifact-bucket none":                  func(s *infra.Stack) { s.ArtifactBucket = "" },
		"--no-iam --iam":                          func(s *infra.Stack) { s.NoIAM = false },
		"--create-iam-roles=false":                func(s *infra.Stack) { s.IAMRoles = false },
		"--no-create-iam-roles":                   func(s *infra.Stack) { s.IAMRoles = false },
		"--aggregator-role-arn none":              func(s *infra.Stack) { s.AggregatorRoleARN = "" },
		"--provisioner-role-arn none":             func(s *infra.Stack) { s.ProvisionerRoleARN = "" },
		"--permission-boundary none":              func(s *infra.Stack) { s.PermissionBoundary = "" },
		"--role-name-format {}":                   func(s *infra.Stack) { s.RoleNameFormat = "{}" },
		"--policy-name-format {}":                 func(s *infra.Stack) { s.PolicyNameFormat = "{}" },
		"--tag env=prod":                          func(s *infra.Stack) { s.Tags["env"] = "prod" },
		"--untag env --untag unknown":             func(s *infra.Stack) { delete(s.Tags, "env") },
	} {
		want := unlike()
		change(&want)
		if diff := cmp.Diff(want, flagged(t, unlike(), strings.Fields(args)...), ignored); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
		for arg := range strings.FieldsSeq(args) {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			tried[name] = true
		}
	}
	// not settings of a stack
	others := []string{"wait", "no-wait", "namespace", "tags-only", "reset", "downgrade", "yes", "lambda-zip"}
	cmd := &cobra.Command{}
	(&deployOptions{Stack: &kit.Stack{}}).flags(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !tried[f.Name] && !slices.Contains(others, f.Name) {
			t.Errorf("--%s was not tried", f.Name)
		}
	})
}
