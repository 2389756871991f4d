package examples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v3"
)

// template is the part of the exported template that the examples refer to.
type template struct {
	Parameters map[string]struct {
		AllowedValues []string `yaml:"AllowedValues"`
	} `yaml:"Parameters"`
	Resources map[string]struct {
		Type string `yaml:"Type"`
	} `yaml:"Resources"`
	Outputs map[string]any `yaml:"Outputs"`
}

// export exports the template into a folder as the READMEs say, and returns it.
func export(t *testing.T, folder string) template {
	t.Helper()
	file := filepath.Join(folder, "template.yaml")
	run(t, nil, program(t, "zae-limiter", buildCommand), "cfn-template", "-o", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var exported template
	if err := yaml.Unmarshal(text, &exported); err != nil {
		t.Fatal(err)
	}
	return exported
}

// TestCDK synthesizes the application as the CDK's command does, with the checks of
// a new project.
func TestCDK(t *testing.T) {
	t.Parallel()
	modules, folder := setup(t, "cdk-local"), t.TempDir()
	exported := export(t, folder)
	for _, name := range []string{"app.js", "cdk.json"} {
		text, err := os.ReadFile(filepath.Join("cdk", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	var config struct{ Context json.RawMessage }
	decode(t, filepath.Join(folder, "cdk.json"), &config)
	runIn(t, folder, []string{"CDK_OUTDIR=cdk.out", "CDK_CONTEXT_JSON=" + string(config.Context)}, "node", "app.js")

	var synthesized struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				RetentionInDays           any
				DeletionProtectionEnabled any
				ManagedPolicyArns         []map[string]any
			}
		}
	}
	decode(t, filepath.Join(folder, "cdk.out", "my-app.template.json"), &synthesized)
	for name, resource := range exported.Resources {
		if got := synthesized.Resources[name].Type; got != resource.Type {
			t.Errorf("%s has the type %q, want %q", name, got, resource.Type)
		}
	}
	if got := synthesized.Resources["AggregatorLogGroup"].Properties.RetentionInDays; got != 90.0 {
		t.Errorf("the logs stay %v days, want 90", got)
	}
	for name, resource := range synthesized.Resources {
		_, ours := exported.Resources[name]
		if arns := resource.Properties.ManagedPolicyArns; !ours && resource.Type == "AWS::IAM::Role" &&
			(len(arns) != 1 || arns[0]["Ref"] != "AcquireOnlyPolicy") {
			t.Errorf("the role %s has the policies %v", name, arns)
		}
	}
	if len(synthesized.Resources) < len(exported.Resources)+1 {
		t.Error("the role of the service is missing")
	}
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// TestTerraform checks the format of the configuration, and that the parameters and
// outputs that it names exist.
func TestTerraform(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("terraform/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	if formatted := hclwrite.Format(text); string(formatted) != string(text) {
		t.Errorf("main.tf has another format than terraform fmt gives it:\n%s", formatted)
	}
	file, diagnostics := hclsyntax.ParseConfig(text, "main.tf", hcl.InitialPos)
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	exported := export(t, t.TempDir())
	found := &references{}
	if diagnostics := hclsyntax.Walk(file.Body.(*hclsyntax.Body), found); diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	if len(found.parameters) < 3 || len(found.outputs) < 2 {
		t.Errorf("the configuration names the parameters %v and the outputs %v; there should be more",
			found.parameters, found.outputs)
	}
	for name, value := range found.parameters {
		parameter, exists := exported.Parameters[name]
		if allowed := parameter.AllowedValues; !exists || value != "" && len(allowed) > 0 &&
			!slices.Contains(allowed, value) {
			t.Errorf("the template has no parameter %s with the value %q, allowed are %v", name, value, allowed)
		}
	}
	for _, name := range found.outputs {
		if _, exists := exported.Outputs[name]; !exists {
			t.Errorf("the template has no output %s", name)
		}
	}
}

// references collects the names that a configuration uses of the stack.
type references struct {
	parameters map[string]string // with their values, "" if they are not literal
	outputs    []string
}

func (r *references) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch node := node.(type) {
	case *hclsyntax.Attribute:
		if object, ok := node.Expr.(*hclsyntax.ObjectConsExpr); ok && node.Name == "parameters" {
			r.parameters = map[string]string{}
			for _, item := range object.Items {
				name, _ := item.KeyExpr.Value(nil)
				value, diagnostics := item.ValueExpr.Value(nil)
				if diagnostics.HasErrors() || value.Type() != cty.String {
					value = cty.StringVal("")
				}
				r.parameters[name.AsString()] = value.AsString()
			}
		}
	case *hclsyntax.ScopeTraversalExpr:
		if node.Traversal.RootName() == "aws_cloudformation_stack" && len(node.Traversal) == 4 {
			if index, ok := node.Traversal[3].(hcl.TraverseIndex); ok {
				r.outputs = append(r.outputs, index.Key.AsString())
			}
		}
	}
	return nil
}

func (r *references) Exit(hclsyntax.Node) hcl.Diagnostics { return nil }
