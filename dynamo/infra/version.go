package infra

import (
	"runtime/debug"
	"strings"

	"golang.org/x/mod/semver"
)

// programVersion returns the version of this module in the running program, without
// the v, or "devel" if it is unknown.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}

	found := info.Main.Version
	// In a program that imports this module, the main module is another one.
	for _, dependency := range info.Deps {
		if dependency.Path == module+"/dynamo/infra" {
			found = dependency.Version
		}
	}

	// A program of this checkout has its version from the repository. Go knows none for
	// the modules beside it.
	if found == "(devel)" && strings.HasPrefix(info.Main.Path, module+"/") {
		found = info.Main.Version
	}

	if found == "" || found == "(devel)" {
		return unknownVersion
	}

	return strings.TrimPrefix(found, "v")
}

const unknownVersion = "devel"

// semverOf returns a version with the v that Go uses, or "" if it is not a
// semantic version.
func semverOf(version string) string {
	if v := "v" + strings.TrimPrefix(version, "v"); semver.IsValid(v) {
		return v
	}
	return ""
}

// canReplace reports whether version a is not older than b. A version that is not
// semantic can replace only another such version.
func canReplace(a, b string) bool {
	before := semverOf(b)
	return before == "" || semverOf(a) != "" && semver.Compare(semverOf(a), before) >= 0
}
