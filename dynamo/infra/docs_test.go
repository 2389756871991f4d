package infra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// operatorGuide is the folder of the pages for operators.
const operatorGuide = "../../docs/operate"

// checkPage compares a generated table on a page of the operator guide, or rewrites
// it with -update.
func checkPage(t *testing.T, page, name string, rows []string) {
	t.Helper()
	path := filepath.Join(operatorGuide, page)
	begin, end := fmt.Sprintf("<!-- %s: written by %s -->\n", name, t.Name()), fmt.Sprintf("<!-- end of %s -->", name)
	text := readPage(t, path)
	head, rest, found := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table of %s", path, name)
	}
	golden.Check(t, path, head+begin+strings.Join(rows, "\n")+"\n"+end+tail)
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declared matches the name of a parameter, resource or output in a template, or the
// comment before a group of them.
var declared = regexp.MustCompile(`(?m)^  (?:(\w+):|# (.+))$`)

// declarations returns the names in a section of the template, in its order. A
// comment is a name that begins with "# ".
func declarations(t *testing.T, section string) (names []string) {
	t.Helper()
	_, text, _ := strings.Cut(string(infra.Template()), "\n"+section+":\n")
	if end := regexp.MustCompile(`(?m)^\w`).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	for _, found := range declared.FindAllStringSubmatch(text, -1) {
		if found[1] != "" {
			names = append(names, found[1])
		} else {
			names = append(names, "# "+found[2])
		}
	}
	if len(names) == 0 {
		t.Fatalf("the template has no %s", section)
	}
	return names
}

// parameterFlags has the flag of deploy for each parameter of the template, or "" if
// deploy sets it by itself.
var parameterFlags = map[string]string{
	"CodeBucket": "--artifact-bucket", "CodeKey": "--lambda-zip", "Architecture": "--architecture",
	"LambdaMemorySize": "--lambda-memory", "LambdaTimeout": "--lambda-timeout", "LogLevel": "",
	"LogRetentionDays": "--log-retention-days", "EnableTracing": "--enable-tracing",
	"EnableAggregator": "--enable-aggregator", "SnapshotWindows": "--snapshot-windows",
	"SnapshotRetentionDays": "--usage-retention-days", "StreamStartingPosition": "",
	"EnableAuditArchival":               "--enable-audit-archival",
	"AuditArchiveGlacierTransitionDays": "--audit-archive-glacier-days",
	"SchemaVersion":                     "", "PITRRecoveryPeriodDays": "--pitr-recovery-days",
	"EnableDeletionProtection": "--enable-deletion-protection", "EnableLeanIndex": "--lean-index",
	"EnableProvisioner": "--enable-provisioner", "EnableAlarms": "--enable-alarms",
	"AlarmSNSTopicArn":        "--alarm-sns-topic",
	"LambdaDurationThreshold": "--lambda-duration-threshold-pct", "EnableIAM": "--iam",
	"EnableIAMRoles":    "--create-iam-roles",
	"AggregatorRoleArn": "--aggregator-role-arn", "ProvisionerRoleArn": "--provisioner-role-arn",
	"PermissionBoundary": "--permission-boundary", "RoleNameFormat": "--role-name-format",
	"AggregatorRoleName": "--role-name-format", "AppRoleName": "--role-name-format",
	"AdminRoleName":    "--role-name-format",
	"ReadOnlyRoleName": "--role-name-format", "ProvisionerRoleName": "--role-name-format",
	"AcquireOnlyPolicyName": "--policy-name-format", "FullAccessPolicyName": "--policy-name-format",
	"ReadOnlyPolicyName": "--policy-name-format", "NamespaceAcquirePolicyName": "--policy-name-format",
	"NamespaceFullAccessPolicyName": "--policy-name-format", "NamespaceReadOnlyPolicyName": "--policy-name-format",
}

// The page about CloudFormation lists all parameters of the template.
func TestParametersPage(t *testing.T) {
	all := fakeaws.Section(template(t), "Parameters")
	var rows []string
	for _, name := range declarations(t, "Parameters") {
		if group, ok := strings.CutPrefix(name, "# "); ok {
			rows = append(rows, "", group+":", "", "| parameter | flag of `deploy` | default | values | meaning |",
				"|---|---|---|---|---|")
			continue
		}
		flag, known := parameterFlags[name]
		if !known {
			t.Errorf("parameter %s has no entry in parameterFlags", name)
		}
		p := all[name]
		rows = append(rows,
			fmt.Sprintf("| %#q | %s | %s | %s | %s |", name, code(flag), code(fakeaws.Text(p, "Default")),
				valuesOf(p), fakeaws.Text(p, "Description")))
	}
	checkPage(t, "cloudformation.md", "parameters", append(rows, ""))
}

// code returns a text as code, or nothing if it is empty.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// valuesOf returns the values that a parameter allows.
func valuesOf(p any) string {
	switch least, most := fakeaws.Text(p, "MinValue"), fakeaws.Text(p, "MaxValue"); {
	case least != "":
		return least + " to " + most
	case fakeaws.Text(p, "ConstraintDescription") != "":
		return fakeaws.Text(p, "ConstraintDescription")
	default:
		return strings.Join(fakeaws.Texts(p, "AllowedValues"), ", ")
	}
}

// conditionTexts describes the conditions of resources and outputs.
var conditionTexts = map[string]string{
	"":                        "always",
	"DeployIAM":               "`EnableIAM`",
	"DeployIAMRolesWithIAM":   "`EnableIAM` and `EnableIAMRoles`",
	"DeployAggregatorLambda":  "`EnableAggregator`, with a role",
	"DeployAuditArchive":      "the aggregator exists, and `EnableAuditArchival`",
	"CreateAggregatorRole":    "`EnableAggregator` and `EnableIAM`, without `AggregatorRoleArn`",
	"DeployProvisionerLambda": "`EnableProvisioner`, with a role",
	"CreateProvisionerRole":   "`EnableProvisioner` and `EnableIAM`, without `ProvisionerRoleArn`",
	"DeployAggregatorAlarms":  "the aggregator exists, and `EnableAlarms`",
	"DeployProvisionerAlarms": "the provisioner exists, and `EnableAlarms`",
	"DeployAlarms":            "`EnableAlarms`",
	"HasPermissionBoundary":   "`PermissionBoundary`",
	"HasRoleNameFormat":       "`RoleNameFormat`",
}

func conditionOf(t *testing.T, declaration any) string {
	t.Helper()
	condition := fakeaws.Text(declaration, "Condition")
	text, known := conditionTexts[condition]
	if !known {
		t.Errorf("condition %s has no entry in conditionTexts", condition)
	}
	return text
}

// The page about CloudFormation lists all resources of the template.
func TestResourcesPage(t *testing.T) {
	all := fakeaws.Section(template(t), "Resources")
	rows := []string{"| resource | type | exists if |", "|---|---|---|"}
	for _, name := range declarations(t, "Resources") {
		if r, ok := all[name]; ok {
			rows = append(rows, fmt.Sprintf("| %#q | %#q | %s |", name, fakeaws.Text(r, "Type"), conditionOf(t, r)))
		}
	}
	checkPage(t, "cloudformation.md", "resources", rows)
}

// The page about CloudFormation lists all outputs of the template.
func TestOutputsPage(t *testing.T) {
	all := fakeaws.Section(template(t), "Outputs")
	rows := []string{"| output | export | exists if |", "|---|---|---|"}
	for _, name := range declarations(t, "Outputs") {
		export := strings.ReplaceAll(fakeaws.Text(all[name], "Export", "Name", "Fn::Sub"), "${AWS::StackName}",
			"my-app")
		rows = append(rows, fmt.Sprintf("| %#q | %#q | %s |", name, export, conditionOf(t, all[name])))
	}
	checkPage(t, "cloudformation.md", "outputs", rows)
}
