package loadtest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// extensions lists the extensions of scenario files.
var extensions = []string{".yaml", ".yml"}

// isFile reports whether the name of a scenario is the path of a file.
func isFile(name string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
}

// findFile returns the file in dir that defines a scenario, or "" if there is
// none. Wanted is the name without a folder and the extension of Python.
func findFile(name, wanted, dir string) string {
	if isFile(name) {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	for _, extension := range extensions {
		path := filepath.Join(dir, wanted+extension)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// LoadDir returns the scenarios of the YAML files in a folder by name. It leaves
// out files without the key classes, such as manifests. The error joins the
// errors of the other files that are wrong.
func LoadDir(dir string) ([]Scenario, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Scenario
	var failed []error
	for _, entry := range entries {
		if entry.IsDir() || !isFile(entry.Name()) {
			continue
		}
		s, err := Load(filepath.Join(dir, entry.Name()))
		switch bad, ok := errors.AsType[*FileError](err); {
		case err == nil:
			all = append(all, s)
		case !ok || !bad.foreign:
			failed = append(failed, err)
		}
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(failed...)
}
