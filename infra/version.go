package infra

import (
	"runtime/debug"
	"strings"

	"golang.org/x/mod/semver"
)

// programVersion is the version of this module in the running program, without
// the v; "devel" if nobody knows.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	found := info.Main.Version
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			found = dependency.Version
		}
	}
	if found == "" || found == "(devel)" {
		return unknownVersion
	}
	return strings.TrimPrefix(found, "v")
}

const unknownVersion = "devel"

// release is a version as Go writes it, with the v; "" if it is none.
func release(version string) string {
	if v := "v" + strings.TrimPrefix(version, "v"); semver.IsValid(v) {
		return v
	}
	return ""
}

// mayFollow tells whether version a may replace b: it is not older. A version
// that cannot be read may replace only another such.
func mayFollow(a, b string) bool {
	before := release(b)
	return before == "" || release(a) != "" && semver.Compare(release(a), before) >= 0
}
