package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// An interrupted purge is listed and can be completed.
func TestInterruptedPurgeIsListedAndFinished(t *testing.T) {
	w := newWorld(t)
	path := strings.TrimPrefix(w.store, "sqlite:")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	repo, err := sqlite.Open(ctx, path, &sqlite.Options{Purged: func(int) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	registered, err := lim.RegisterNamespaces(ctx, "doomed")
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := lim.Namespace(ctx, "doomed")
	if err != nil {
		t.Fatal(err)
	}
	const entities = 10 // and as many audit events
	for i := range entities {
		if _, err := snapshot.CreateEntity(ctx, limiter.Entity{ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	id := registered[0].ID
	if err := lim.DeleteNamespace(ctx, "doomed"); err != nil {
		t.Fatal(err)
	}
	if err := lim.PurgeNamespace(ctx, id); !errors.Is(err, context.Canceled) {
		t.Fatalf("the purge was not interrupted: %v", err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	if out, code := w.run(0, false, "namespace orphans"); code != kit.ExitDone ||
		!strings.HasPrefix(out, "doomed\t"+id+"\tpurging\t") {
		t.Errorf("orphans: code %d, %q", code, out)
	}
	if out, code := w.run(0, false, "namespace recover "+id); code != kit.ExitFailed {
		t.Errorf("recover: code %d, %q", code, out)
	}
	if out, code := w.run(0, false, "namespace purge --yes -- "+id); code != kit.ExitDone ||
		!strings.Contains(out, "10 items removed") {
		t.Errorf("purge: code %d, %q", code, out)
	}
	if out, _ := w.run(0, false, "namespace orphans"); strings.Contains(out, id) {
		t.Errorf("orphans: %q", out)
	}
}
