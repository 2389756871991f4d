package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// TestPagesFollowAnIndex checks that a page reads its own rows only: the plan
// searches an index from the place where the page begins, and sorts nothing.
func TestPagesFollowAnIndex(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	for name, c := range map[string]struct {
		prefix string
		after  rules.Position
	}{
		"first":               {},
		"first of a prefix":   {prefix: "a"},
		"after a bucket":      {after: rules.Position{Entity: "a", Resource: "x"}},
		"after an entity":     {after: rules.Position{Entity: "a"}},
		"within a prefix":     {prefix: "a", after: rules.Position{Entity: "ab", Resource: "x"}},
		"a prefix of no byte": {prefix: "\xff"},
	} {
		var plan []string
		err := r.read(t.Context(), func(tx *tx) error {
			query, args := pageQuery(tx.columns(), r.key, c.prefix, c.after, 100)
			return tx.query(func(scan func(...any) error) error {
				var id, parent, unused int
				var step string
				err := scan(&id, &parent, &unused, &step)
				plan = append(plan, step)
				return err
			}, "EXPLAIN QUERY PLAN "+query, args...)
		})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(plan, "; ")
		if len(plan) != 1 || !strings.HasPrefix(got, "SEARCH b USING INDEX sqlite_autoindex_buckets_v7_1 (ns=? AND ") {
			t.Errorf("%s: plan %q, want one search of the index by entity and resource", name, got)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "ab": "ac", "a\xff": "b", "\xff\xff": "", "é": "ê"} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
