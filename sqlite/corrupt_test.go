package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// Stored data that cannot be is named, refuses in either mode, and can be
// replaced where people set it.
func TestDamagedRowsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	lim := limiterOn(t, repo)
	ctx := t.Context()
	req := limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow}
	set := func() {
		t.Helper()
		if err := lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 10)); err != nil {
			t.Fatal(err)
		}
	}
	set()
	if _, err := lim.Acquire(ctx, req); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, damage, mend, says string }{
		{
			"limits without a capacity", `UPDATE configs SET limits = '[{"name":"rpm"}]'; UPDATE namespaces SET facts = facts + 1`, "",
			"limits of resource gpt-4",
		},
		{"limits that are no JSON", `UPDATE configs SET limits = '['; UPDATE namespaces SET facts = facts + 1`, "", "limits of resource gpt-4"},
		{"a balance that is no number", `UPDATE buckets SET tokens = '[many]'`, `UPDATE buckets SET tokens = '[9000]'`, "bucket of alice and gpt-4"},
		{"a balance too few", `UPDATE buckets SET tokens = '[]'`, `UPDATE buckets SET tokens = '[9000]'`, "bucket of alice and gpt-4"},
		{"a level that is none", `UPDATE buckets SET level = 7`, `UPDATE buckets SET level = 2`, "bucket of alice and gpt-4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			script(ctx, t, path, c.damage)
			_, err := lim.Acquire(ctx, req)
			if !isType[*limiter.CorruptError](err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a CorruptError about %q", err, c.says)
			}
			if c.mend != "" {
				script(ctx, t, path, c.mend)
			}
			set()
			if _, err := lim.Acquire(ctx, req); err != nil {
				t.Errorf("after it was mended: %v", err)
			}
		})
	}
}

// A file whose pages are overwritten is corrupt, not unavailable.
func TestOverwrittenFileIsCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i++ { // the header stays
		content[i] = 0xff
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := openError(t, path, nil); !isType[*limiter.CorruptError](err) {
		t.Error(err)
	}
}
