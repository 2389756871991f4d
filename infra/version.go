package infra

import (
	"cmp"
	"runtime/debug"
	"strconv"
	"strings"
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

// release is MAJOR.MINOR.PATCH, and perhaps what comes before that release.
type release struct {
	numbers [3]int
	before  string // "" for the release itself
}

// parseRelease reads 1.2.3, v1.2.3, 1.2.3-rc1, and what Go makes up for a commit.
func parseRelease(s string) (r release, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	s, r.before, _ = strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != len(r.numbers) {
		return release{}, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return release{}, false
		}
		r.numbers[i] = n
	}
	return r, true
}

// compare orders releases: what comes before one is older than it.
func (r release) compare(o release) int {
	for i, n := range r.numbers {
		if c := cmp.Compare(n, o.numbers[i]); c != 0 {
			return c
		}
	}
	switch {
	case r.before == o.before:
		return 0
	case r.before == "":
		return 1
	case o.before == "":
		return -1
	}
	return cmp.Compare(r.before, o.before)
}

// mayFollow tells whether version a may replace b: it is not older. A version
// that cannot be read may replace only another such.
func mayFollow(a, b string) bool {
	x, ok := parseRelease(a)
	y, known := parseRelease(b)
	return !known || ok && x.compare(y) >= 0
}
