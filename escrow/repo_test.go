package escrow_test

import (
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// sharing holds nothing, so answers are exact.
var sharing = &escrow.Options{MaxHold: -1}

func TestRepository(t *testing.T) {
	stores := map[string]func(*testing.T) limiter.Repository{
		"memory": func(*testing.T) limiter.Repository { return memory.New(nil) },
		"sqlite": func(t *testing.T) limiter.Repository {
			t.Helper()
			repo, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return repo
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			repotest.Run(t, func(t *testing.T) limiter.Repository {
				t.Helper()
				return escrow.New(open(t), sharing)
			}, "usage")
		})
	}
}

func TestCompare(t *testing.T) {
	for seed := range uint64(6) {
		repotest.Compare(t, seed, 2000, memory.New(nil), escrow.New(memory.New(nil), sharing))
	}
}
