package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The compose file of the web demo builds the program of this repository, waits for
// its table, and gives flags that exist. Only this machine reaches the page.
func TestComposeFileOfTheWebDemo(t *testing.T) {
	text, err := os.ReadFile("../../../examples/web-demo/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type service struct {
		Image     string
		Build     struct{ Context, Target string }
		Command   []string
		Ports     []string
		DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	var file struct{ Services map[string]service }
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, s := range file.Services {
		for dependency := range s.DependsOn {
			if _, ok := file.Services[dependency]; !ok {
				t.Errorf("%s depends on %s, which is missing", name, dependency)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to other machines", name, port)
			}
		}
		if s.Image != "" {
			continue
		}
		ours++
		if _, err := os.Stat(filepath.Join(
			"..", "..", "..", "examples", "web-demo", s.Build.Context, "Dockerfile",
		)); err != nil || s.Build.Target != "cli" {
			t.Errorf("%s is built from %+v: %v", name, s.Build, err)
		}
		cmd, rest, err := tree().Find(s.Command)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ours != 3 {
		t.Errorf("%d services run this program, want 3", ours)
	}
	demo := file.Services["demo"]
	if got := strings.Join(demo.Command, " "); got != "demo --web --listen 0.0.0.0:8080 --insecure "+
		"--no-browser --store dynamodb:web-demo" {
		t.Errorf("the demo runs %q", got)
	}
	if got := demo.DependsOn["table"].Condition; got != "service_completed_successfully" {
		t.Errorf("the demo starts when the table is %q", got)
	}
}
