package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func TestStatisticsCountWritesAndCommits(t *testing.T) {
	repo, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	values := func() map[string]float64 {
		all := map[string]float64{}
		for s := range repo.Statistics() {
			all[s.Name] = s.Value
		}
		return all
	}
	before := values()
	const calls = 3
	for range calls {
		charge := limiter.Charge{
			Entity: "alice", Resource: "api", Amounts: limiter.Tokens("rpm", 1),
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
		}
		if _, err := repo.Consume(t.Context(), time.Now(), charge); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"store.requests", "store.commits"} {
		if got := values()[name] - before[name]; got != calls {
			t.Errorf("%s counted %g of %d calls, one after the other", name, got, calls)
		}
	}
}
