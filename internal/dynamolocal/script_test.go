package dynamolocal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestScriptIsFoundFromAnyFolder(t *testing.T) {
	t.Setenv(EndpointVariable, "")
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "",
		"scripts/dynamodb-local": "#!/bin/sh\necho \"http://$1\"; cat >/dev/null\n",
		"dynamo/a.go":            "",
		"internal/cli/tty/a.go":  "",
	} {
		write(t, filepath.Join(root, name), text)
	}
	for _, dir := range []string{".", "dynamo", "internal/cli/tty"} {
		t.Chdir(filepath.Join(root, dir))
		e, err := Start()
		if err != nil {
			t.Errorf("in %s: %v", dir, err)
			continue
		}
		if e.URL() != "http://run" {
			t.Errorf("in %s the URL is %s", dir, e.URL())
		}
		if err := e.Stop(); err != nil {
			t.Errorf("in %s: %v", dir, err)
		}
	}
}

func TestEngineIsMissingWhereItsScriptIs(t *testing.T) {
	t.Setenv(EndpointVariable, "")
	t.Chdir(t.TempDir())
	if e, err := Start(); !errors.Is(err, ErrMissing) {
		t.Errorf("outside of a module: %v, %v", e, err)
	}
	write(t, "go.mod", "")
	if e, err := Start(); !errors.Is(err, ErrMissing) {
		t.Errorf("in a module without it: %v, %v", e, err)
	}
}

// This module has the script where it is looked for.
func TestScriptIsThere(t *testing.T) {
	name, err := findScript()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
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
