package loadtest

import (
	"cmp"
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
// none. The name wanted has no folder and no Python extension.
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

// findNamed returns the scenario of the file in dir whose key name is wanted, and
// false if there is none. It passes over files that are wrong. The error is a
// *[limiter.InvalidError] if several files have the name.
func findNamed(wanted, dir string) (found Scenario, ok bool, err error) {
	// A folder that cannot be read has no scenario.
	files, _ := filesIn(dir)
	var matches []string

	for _, file := range files {
		if s, err := Load(file); err == nil && s.Name == wanted {
			found = s
			matches = append(matches, filepath.Base(file))
		}
	}

	if len(matches) > 1 {
		return Scenario{}, false, invalid("scenario", wanted,
			"%s have this name; choose one of the files, such as %s", strings.Join(matches, " and "), matches[0])
	}

	return found, len(matches) == 1, nil
}

// filesIn returns the paths of the YAML files in a folder.
func filesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	for _, entry := range entries {
		if !entry.IsDir() && isFile(entry.Name()) {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, err
}

// LoadDir returns the scenarios of the YAML files in a folder by name. It leaves
// out files without the key classes, such as manifests. The error joins the
// errors of the other files that are wrong.
func LoadDir(dir string) ([]Scenario, error) {
	files, err := filesIn(dir)
	if err != nil {
		return nil, err
	}

	var all []Scenario
	var failed []error
	for _, file := range files {
		s, err := Load(file)
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
