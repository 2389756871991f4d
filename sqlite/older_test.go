package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// A file of the version before buckets were pulled back is read as it is, and
// brought to the present one by whoever writes.
func TestBucketsOfAnOlderFileAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	charge := limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 4), Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	}
	repo := open(t, path, nil)
	if _, err := repo.Consume(t.Context(), now, charge); err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	script(t.Context(), t, path, "ALTER TABLE buckets DROP COLUMN pulled; PRAGMA user_version = 3")
	for _, opts := range []*sqlite.Options{{ReadOnly: true}, nil} {
		older := open(t, path, opts)
		out, err := older.Peek(t.Context(), now, charge)
		if err != nil || !out.Admitted || out.Self.Tokens[0] != 2_000 {
			t.Errorf("with options %v: %v, %v; want 2 tokens left", opts, out, err)
		}
		if err := older.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
