package dynamo

import (
	"cmp"
	"testing"
)

func TestVersionsParseAsPythonParsesThem(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]version{
		"0.8.0":                     {0, 8, 0, ""},
		"v1.22.333":                 {1, 22, 333, ""},
		"0.10.0-rc.1":               {0, 10, 0, "rc.1"},
		"0.10.1.dev12":              {0, 10, 1, "dev"},
		"0.10.1.dev3+g1a2b3c.d2025": {0, 10, 1, "dev"},
	} {
		if got, ok := parseVersion(s); !ok || got != want {
			t.Errorf("%s: %+v, %t", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "1", "1.2", "1.2.3.4", "1.2.3+x", "1.2.3rc1", "1.2.3-", "a.b.c", "+1.2.3", "1.-2.3", "1.2.3-rc 1",
		"vv1.2.3", "latest", "1..3",
	} {
		if got, ok := parseVersion(s); ok {
			t.Errorf("%q is taken for %+v", s, got)
		}
	}
}

func TestVersionsAreOrderedAndPrereleasesComeFirst(t *testing.T) {
	t.Parallel()
	rising := []string{"0.7.9", "0.8.0-a", "0.8.0-b", "0.8.0", "0.8.1", "0.9.0", "0.10.0.dev1", "0.10.0", "1.0.0"}
	for i, a := range rising {
		for j, b := range rising {
			v, _ := parseVersion(a)
			w, _ := parseVersion(b)
			if got, want := v.compare(w), cmp.Compare(i, j); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
}
