package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptIsFoundFromAnyDirectory(t *testing.T) {
	t.Setenv("ZAEL_TEST_SERVER", "")
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                    "",
		"scripts/any":               "#!/bin/sh\necho \"http://$1\"; cat >/dev/null\n",
		"dynamo/a.go":               "",
		"cmd/internal/cli/tty/a.go": "",
		"bench/go.mod":              "",
	} {
		write(t, filepath.Join(root, name), text)
	}
	for _, dir := range []string{".", "dynamo", "cmd/internal/cli/tty", "bench"} {
		t.Chdir(filepath.Join(root, dir))
		s, err := Start("any", "ZAEL_TEST_SERVER")
		if err != nil {
			t.Errorf("in %s: %v", dir, err)
			continue
		}
		if s.URL() != "http://run" {
			t.Errorf("in %s the URL is %s", dir, s.URL())
		}
		if err := s.Stop(); err != nil {
			t.Errorf("in %s: %v", dir, err)
		}
	}
}

func TestServerIsMissingWithoutItsScript(t *testing.T) {
	t.Setenv("ZAEL_TEST_SERVER", "")
	t.Chdir(t.TempDir())
	if s, err := Start("any", "ZAEL_TEST_SERVER"); !errors.Is(err, ErrMissing) {
		t.Errorf("outside of a module: %v, %v", s, err)
	}
	write(t, "go.mod", "")
	if s, err := Start("any", "ZAEL_TEST_SERVER"); !errors.Is(err, ErrMissing) {
		t.Errorf("in a module without it: %v, %v", s, err)
	}
}

func TestSetup(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	write(t, "go.mod", "")
	for _, test := range []struct {
		script, body string
		path, says   string
		missing      bool
	}{
		{"good", "echo /there", "/there", "", false},
		{"lacking", "echo 'install Python' >&2; exit 3", "", "install Python", true},
		{"bad", "echo some; echo 'no disk' >&2; exit 1", "", "no disk", false},
	} {
		write(t, "scripts/"+test.script, "#!/bin/sh\n[ \"$*\" = setup ] || exit 9\n"+test.body+"\n")
		path, err := Setup(t.Context(), test.script)
		if path != test.path || errors.Is(err, ErrMissing) != test.missing || (err == nil) != (test.says == "") ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %q, %v", test.script, path, err)
		}
	}
	if path, err := Setup(t.Context(), "none"); !errors.Is(err, ErrMissing) {
		t.Errorf("without a script: %q, %v", path, err)
	}
}

// findScript finds the scripts of this module.
func TestScriptsExist(t *testing.T) {
	for _, script := range []string{"dynamodb-local", "moto-local", "envoy-local"} {
		name, err := findScript(script)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
