package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/infra"
)

func TestChangesThatAreAskedFor(t *testing.T) {
	harmless := []infra.Change{{Action: "Add", Resource: "New"}, {Action: "Modify", Resource: "Function", Replacement: "False"}}
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
		"what nobody knows":              {change: infra.Change{Action: "Dynamic"}},
		"agreed before":                  {change: infra.Change{Action: "Remove"}, terminal: true, yes: true, passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stackConnection{console: &console{in: strings.NewReader("n\n"), err: io.Discard, asks: test.terminal}}
			changes := harmless
			if test.change.Action != "" {
				changes = append(changes[:2:2], test.change)
			}
			if err := s.confirmChanges(t.Context(), "my-app", test.yes)(changes); (err == nil) != test.passes {
				t.Error(err)
			}
		})
	}
}

// Every flag of a stack replaces what is deployed, and only that.
func TestFlagsOverWhatIsDeployed(t *testing.T) {
	deployed := infra.Stack{
		NoIAM: true, NoAlarms: true, DeletionProtection: true, LambdaMemory: 512, PermissionBoundary: "Bound",
		Architecture: infra.X8664, Tags: map[string]string{"team": "a", "env": "dev"},
	}
	o := &deployOptions{stackConnection: &stackConnection{console: &console{}}}
	o.is(infra.Stack{})
	cmd := &cobra.Command{}
	o.flags(cmd)
	err := cmd.Flags().Parse([]string{"--iam", "--no-iam", "--iam", "--no-deletion-protection", "--lambda-memory", "256", "--lambda-timeout", "7", "--tag", "env=prod", "--no-provisioner"})
	if err != nil {
		t.Fatal(err)
	}
	got := o.over(deployed, cmd.Flags())
	if got.NoIAM || !got.NoAlarms || got.DeletionProtection || !got.NoProvisioner || got.NoAggregator {
		t.Errorf("%+v", got)
	}
	if got.LambdaMemory != 256 || got.LambdaTimeout.Seconds() != 7 || got.PermissionBoundary != "Bound" || got.Architecture != infra.X8664 {
		t.Errorf("%+v", got)
	}
	if got.Tags["team"] != "a" || got.Tags["env"] != "prod" {
		t.Errorf("%+v", got.Tags)
	}
}
