package hint

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Text returns the text of an error with commands in place of calls of Go.
func Text(err error) string { return Part(err.Error(), err) }

// Part returns a part of the text of an error with commands in place of calls of Go.
// Each remedy stands once in the text, in the same order.
func Part(text string, err error) string { return words(text, remedy.Of(err), true) }

// Words returns a text with commands in place of the remedies that it names, however
// often it does.
func Words(text string, remedies []*remedy.Remedy) string { return words(text, remedies, false) }

func words(text string, remedies []*remedy.Remedy, once bool) string {
	var b strings.Builder
	for text != "" {
		// A call may begin with the text of another one.
		best := -1
		for i, r := range remedies {
			if strings.HasPrefix(text, r.Error()) && (best < 0 || len(r.Error()) > len(remedies[best].Error())) {
				best = i
			}
		}

		if best < 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}

		b.WriteString(command(remedies[best]))
		text = text[len(remedies[best].Error()):]
		if once {
			remedies = slices.Delete(remedies, best, best+1)
		}
	}
	return b.String()
}

// LeftOut returns what a line of LeftOut of settings says with commands in place of calls
// of Go.
func LeftOut(text string) string {
	return Words(text, []*remedy.Remedy{{Call: remedy.ListSwitches}})
}

// command returns the words of the program for a remedy.
func command(r *remedy.Remedy) string {
	at := Place{r.Region, r.Endpoint}
	named := func(verb string, flags ...string) string {
		words := append(strings.Fields(verb), "--name", r.Name)
		return at.Command(append(words, flags...)...)
	}

	switch r.Call {
	case remedy.RegisterNamespace:
		return at.Command("namespace", "register", r.Args[0], "--name", r.Name)
	case remedy.CreateTable:
		return at.Command("table", "create", r.Name)
	case remedy.MigrateTable:
		return at.Command("table", "migrate", r.Name)
	case remedy.DeleteNewerBuckets:
		return at.Command("table", "migrate", r.Name, "--delete-newer-buckets")
	case remedy.DeleteTable:
		return at.Command("table", "delete", r.Name)
	case remedy.ReadSettings:
		return at.Command("limits", "export", "--from", "dynamodb:"+r.Name)
	case remedy.ListSwitches:
		return "zae-limiter switches"
	case remedy.Deploy:
		return named("deploy")
	case remedy.DeployUnprotected:
		return named("deploy", "--no-deletion-protection")
	case remedy.DeployPolicies:
		return named("deploy", "--iam")
	case remedy.DeployAggregator:
		return named("deploy", "--no-aggregator") + " and then --enable-aggregator"
	case remedy.DeployProvisioner:
		return named("deploy", "--no-provisioner") + " and then --enable-provisioner"
	case remedy.Upgrade:
		return named("upgrade")
	case remedy.Delete:
		return named("delete")
	case remedy.DeployLoad:
		return named("loadtest deploy")
	case remedy.DeleteLoad:
		return named("loadtest delete")
	case remedy.Wait:
		return "run the same command to wait for it, or " + named("status")
	case remedy.WaitLoad:
		return "run the same command to wait for it, or " + at.Command("loadtest", "list")
	case remedy.UseTable:
		return named("status") + " shows it, and commands about data use it, such as " + named("resource list")
	case remedy.RunLoad:
		return Place{}.Command("loadtest", "local")
	case remedy.NewPackage:
		return "zae-limiter lambda-export"
	case remedy.UnprotectTable:
		return at.AWS("dynamodb", "update-table", "--no-deletion-protection-enabled", "--table-name", r.Name)
	case remedy.UnprotectStack:
		return at.AWS("cloudformation", "update-termination-protection", "--no-enable-termination-protection",
			"--stack-name", r.Name)
	case remedy.ContinueRollback:
		return at.AWS("cloudformation", "continue-update-rollback", "--stack-name", r.Name)
	case remedy.RestoreCode:
		return at.AWS("lambda", "update-function-code", "--function-name", r.Name, "--s3-bucket", r.Args[0],
			"--s3-key", r.Args[1])
	}
	return r.Error()
}
