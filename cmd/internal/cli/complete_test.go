package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// Suggestions start with the typed word, however many names there are.
func TestCompletionOfOneAmongMany(t *testing.T) {
	w := newWorld(t)
	repo, err := sqlite.Open(t.Context(), strings.TrimPrefix(w.store, "sqlite:"), nil)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kit.MaxCompletions + 50 {
		if _, err := lim.CreateEntity(t.Context(), limiter.Entity{ID: fmt.Sprintf("many-%03d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kit.EnvStore, w.store)
	for word, want := range map[string]int{"many-24": 10, "many-": kit.MaxCompletions, "project": 1, "absent": 0} {
		out, code := w.run(0, false, "__complete entity show "+word)
		if got := strings.Count(out, "\n"+word) + strings.Count(
			out[:min(len(word), len(out))], word,
		); code != kit.ExitDone || got != want {
			t.Errorf("%s: code %d, %d words, want %d:\n%s", word, code, got, want, out)
		}
	}
}
