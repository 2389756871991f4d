package hint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// commands has the words for each call, about app in eu-west-1 at http://h.
var commands = map[remedy.Call]string{
	remedy.RegisterNamespace: "`zae-limiter namespace register x --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.CreateTable:       "`zae-limiter table create app --region eu-west-1 --endpoint-url http://h`",
	remedy.MigrateTable:      "`zae-limiter table migrate app --region eu-west-1 --endpoint-url http://h`",
	remedy.DeleteNewerBuckets: "`zae-limiter table migrate app --delete-newer-buckets --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.ReadSettings: "`zae-limiter limits export --from dynamodb:app --region eu-west-1 --endpoint-url http://h`",
	remedy.ListSwitches: "zae-limiter switches",
	remedy.Deploy:       "`zae-limiter deploy --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.DeployUnprotected: "`zae-limiter deploy --name app --no-deletion-protection --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.DeployPolicies: "`zae-limiter deploy --name app --iam --region eu-west-1 --endpoint-url http://h`",
	remedy.DeployAggregator: "`zae-limiter deploy --name app --no-aggregator --region eu-west-1 --endpoint-url http://h` " +
		"and then --enable-aggregator",
	remedy.DeployProvisioner: "`zae-limiter deploy --name app --no-provisioner --region eu-west-1 --endpoint-url http://h` " +
		"and then --enable-provisioner",
	remedy.Upgrade:     "`zae-limiter upgrade --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.Delete:      "`zae-limiter delete --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.DeleteTable: "`zae-limiter table delete app --region eu-west-1 --endpoint-url http://h`",
	remedy.DeployLoad:  "`zae-limiter loadtest deploy --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.DeleteLoad:  "`zae-limiter loadtest delete --name app --region eu-west-1 --endpoint-url http://h`",
	remedy.RunLoad:     "`zae-limiter loadtest local`",
	remedy.NewPackage:  "zae-limiter lambda-export",
	remedy.Wait: "run the same command to wait for it, or `zae-limiter status --name app --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.WaitLoad: "run the same command to wait for it, or `zae-limiter loadtest list --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.UseTable: "`zae-limiter status --name app --region eu-west-1 --endpoint-url http://h` shows it, and " +
		"commands about data use it, such as `zae-limiter resource list --name app --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.UnprotectTable: "`aws dynamodb update-table --no-deletion-protection-enabled --table-name app " +
		"--region eu-west-1 --endpoint-url http://h`",
	remedy.UnprotectStack: "`aws cloudformation update-termination-protection --no-enable-termination-protection " +
		"--stack-name app --region eu-west-1 --endpoint-url http://h`",
	remedy.ContinueRollback: "`aws cloudformation continue-update-rollback --stack-name app --region eu-west-1 " +
		"--endpoint-url http://h`",
	remedy.RestoreCode: "`aws lambda update-function-code --function-name app --s3-bucket x --s3-key y " +
		"--region eu-west-1 --endpoint-url http://h`",
}

func TestEveryCallHasACommand(t *testing.T) {
	for call, want := range commands {
		r := &remedy.Remedy{
			Call: call, Name: "app", Args: []string{"x", "y"}, Region: "eu-west-1", Endpoint: "http://h",
		}
		err := fmt.Errorf("connect: %w", remedy.With(fmt.Errorf("missing; %v creates it", r), r))
		if got := Text(err); got != "connect: missing; "+want+" creates it" {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
		if got := Words("a problem, "+r.Error()+" mends it", []*remedy.Remedy{r}); got != "a problem, "+want+" mends it" {
			t.Errorf("%s: %s", call, got)
		}
	}

	// Every constant of the type is in the table.
	file, err := parser.ParseFile(token.NewFileSet(), "../../../internal/remedy/remedy.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if !isLiteral {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err != nil || commands[remedy.Call(text)] == "" {
			t.Errorf("%s has no command in the table", literal.Value)
		}
		return true
	})
}

// Two errors with the same remedy about two things keep them apart.
func TestRemediesKeepTheirOrder(t *testing.T) {
	missing := func(name string) error {
		r := &remedy.Remedy{Call: remedy.Deploy, Name: name}
		return remedy.With(fmt.Errorf("%s is missing; %v creates it", name, r), r)
	}
	want := "a is missing; `zae-limiter deploy --name a` creates it\nb is missing; `zae-limiter deploy --name b` creates it"
	if got := Text(errors.Join(missing("a"), missing("b"))); got != want {
		t.Error(got)
	}
	for _, other := range []remedy.Call{remedy.DeployLoad, remedy.DeployAggregator, remedy.DeployUnprotected} {
		first, second := &remedy.Remedy{Call: remedy.Deploy, Name: "a"}, &remedy.Remedy{Call: other, Name: "a"}
		text := second.Error() + " and " + first.Error()
		want := command(second) + " and " + command(first)
		if got := Words(text, []*remedy.Remedy{first, second}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := Text(errors.New("no remedy")); got != "no remedy" {
		t.Error(got)
	}
}
