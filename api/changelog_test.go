package api

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRemovedNamesAreInTheChangelog checks that users can read about every name
// that they cannot use any more.
func TestRemovedNamesAreInTheChangelog(t *testing.T) {
	changelog, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := breaking(string(changelog))
	for _, removed := range readLines(t, removedFile) {
		if !announced(removed, entries, storedAPI(t)) {
			t.Errorf("api/%s has %q; name it in a **breaking** entry under Unreleased of CHANGELOG.md", removedFile,
				removed)
		}
	}
}

// breaking returns the entries of the next release that are marked as breaking.
func breaking(changelog string) []string {
	_, next, _ := strings.Cut(changelog, "\n## [Unreleased]\n")
	next, _, _ = strings.Cut(next, "\n## ")
	var entries []string
	for _, entry := range strings.Split(next, "\n- ")[1:] {
		entry, _, _ = strings.Cut(entry, "\n\n")
		if strings.Contains(entry, "**breaking**") {
			entries = append(entries, entry)
		}
	}
	return entries
}

// announced reports whether an entry names what a line of removedFile removed, and
// its package. The name of a type that is gone covers its fields and methods.
func announced(removed string, entries []string, now map[string][]string) bool {
	file, line, _ := strings.Cut(removed, ": ")
	names := []string{nameIn(line)}
	if owner, _, ok := strings.Cut(names[0], "."); ok && !declares(now[file], owner) {
		names = append(names, owner)
	}
	for _, entry := range entries {
		if file != "limiter.txt" && !mentions(entry, strings.TrimSuffix(path.Base(file), ".txt")) {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return mentions(entry, name) }) {
			return true
		}
	}
	return false
}

func mentions(entry, name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(entry)
}

func declares(lines []string, typeName string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "type ") && nameIn(line) == typeName
	})
}

var (
	methodLine = regexp.MustCompile(`^method \(\*?(\w+)\) (\w+)`)
	memberLine = regexp.MustCompile(
		`^type (\w+)(?:\[.*?\])? (?:struct|interface), (?:embedded \*?(?:[\w./-]+\.)?)?(\w+)`,
	)
	plainLine = regexp.MustCompile(`^\w+ (\w+)`)
)

// nameIn returns the name that a line declares. A field or method follows its type
// and a dot.
func nameIn(line string) string {
	for _, member := range []*regexp.Regexp{methodLine, memberLine} {
		if match := member.FindStringSubmatch(line); match != nil {
			return match[1] + "." + match[2]
		}
	}
	if match := plainLine.FindStringSubmatch(line); match != nil {
		return match[1]
	}
	return line
}

func TestNameIn(t *testing.T) {
	for line, want := range map[string]string{
		"const Schema string = \"1\"":                       "Schema",
		"var ErrClosed error":                               "ErrClosed",
		"func New(*Options) *Store":                         "New",
		"func Optional[T any](Repository) (T, bool)":        "Optional",
		"method (*Lease) Commit(context.Context) error":     "Lease.Commit",
		"method (Limit) String() string":                    "Limit.String",
		"type Limit struct":                                 "Limit",
		"type Limit struct, Name string":                    "Limit.Name",
		"type Page[T any] struct, Items []T":                "Page.Items",
		"type Error struct, embedded *limiter.InvalidError": "Error.InvalidError",
		"type Error struct, embedded Decision":              "Error.Decision",
		"type Store interface { Get, Put }":                 "Store",
		"type Store interface, Get(string) string":          "Store.Get",
		"type Mode = string":                                "Mode",
	} {
		if got := nameIn(line); got != want {
			t.Errorf("nameIn(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestAnnounced(t *testing.T) {
	entries := breaking("# Changelog\n\n## [Unreleased]\n\n- `New` is faster.\n- **breaking** `Lease.Commit` " +
		"needs\n  a context.\n" +
		"- **breaking** In `memory`, `Purge` replaces `Clear`.\n\n### Fixed\n\n- **breaking** `Page` is " +
		"gone.\n\n## [0.1.0]\n\n- **breaking** `Old` is gone.\n")
	now := map[string][]string{"limiter.txt": {"type Lease struct", "method (*Lease) Commit(context.Context) error"}}
	for removed, want := range map[string]bool{
		"limiter.txt: method (*Lease) Commit() error":   true,
		"limiter.txt: method (*Lease) Rollback() error": false,
		"limiter.txt: type Lease struct, Consumed int":  false,
		"limiter.txt: type Page struct, Items []string": true,
		"limiter.txt: type Page struct":                 true,
		"limiter.txt: func New() *RateLimiter":          false,
		"limiter.txt: func Old()":                       false,
		"memory.txt: func Clear()":                      true,
		"sqlite.txt: func Clear()":                      false,
	} {
		if got := announced(removed, entries, now); got != want {
			t.Errorf("announced(%q) = %v, want %v", removed, got, want)
		}
	}
}
