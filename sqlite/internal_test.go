package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func openFile(t *testing.T, path string, opts *Options) *Repository {
	t.Helper()
	repo, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

// block blocks the writer until release is called.
func block(t *testing.T, r *Repository) (release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.writer.do(context.Background(), newQueuedWrite(0, func(*tx) error {
			close(began)
			<-end
			return nil
		}))
	}()
	<-began
	return func() { close(end) }
}

func TestWaitingCallsShareACommit(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	release := block(t, r)
	const calls = 50
	var mu sync.Mutex
	transactions := map[*tx]int{}
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
				mu.Lock()
				defer mu.Unlock()
				transactions[tx]++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for len(r.writer.queue) < calls {
		runtime.Gosched() // until all calls wait
	}
	release()
	group.Wait()
	if len(transactions) != 1 {
		t.Errorf("%d calls took %d transactions, want 1", calls, len(transactions))
	}
}

func TestOneFailingCallDoesNotFailTheOthers(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	release := block(t, r)
	insert := func(tx *tx, name string) error {
		_, err := tx.exec("INSERT INTO namespaces_v7 (id, name, created) VALUES (?, ?, 0)", name, name)
		return err
	}
	const calls = 6
	errs := make([]error, calls)
	var group sync.WaitGroup
	for i := range calls {
		group.Go(func() {
			errs[i] = r.write(t.Context(), time.Time{}, func(tx *tx) error {
				if err := insert(tx, fmt.Sprint("n", i)); err != nil {
					return err
				}
				if i == 3 {
					return insert(tx, "n3") // violates a constraint after a write
				}
				return nil
			})
		})
	}
	for len(r.writer.queue) < calls {
		runtime.Gosched()
	}
	release()
	group.Wait()
	stored := map[string]bool{}
	for n := range r.Namespaces(t.Context()) {
		stored[n.Name] = true
	}
	for i, err := range errs {
		if failed := err != nil; failed != (i == 3) || stored[fmt.Sprint("n", i)] == failed {
			t.Errorf("call %d: error %v, stored %v", i, err, stored[fmt.Sprint("n", i)])
		}
	}
}

// TestAbandonedCallIsNotMade checks that a call whose context ends in the queue
// never runs.
func TestAbandonedCallIsNotMade(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	release := block(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	made := false
	go func() {
		done <- r.write(ctx, time.Time{}, func(*tx) error { made = true; return nil })
	}()
	for len(r.writer.queue) < 1 {
		runtime.Gosched()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release()
	if err := r.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil { // waits for the queue
		t.Error(err)
	}
	if made {
		t.Error("the call was made")
	}
}

func TestFileIsMigratedStepByStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := openFile(t, path, nil)
	e := limiter.Entity{ID: "alice", Name: "Alice"}
	if err := r.CreateEntity(t.Context(), e, limiter.AuditEvent{ID: "1", Entity: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	released := migrations
	t.Cleanup(func() { migrations = released })

	migrations = slices.Concat(released, []string{
		"ALTER TABLE entities ADD COLUMN note TEXT NOT NULL DEFAULT 'none'", "INSERT INTO nowhere VALUES (1)",
	})
	if _, err := Open(t.Context(), path, nil); err == nil {
		t.Fatal("a failed migration returned no error")
	}
	migrations = migrations[:len(released)+1] // the failed attempt must leave nothing
	r = openFile(t, path, nil)
	var note string
	var version int
	err := r.read(t.Context(), func(tx *tx) error {
		if err := tx.row("SELECT note FROM entities WHERE id = 'alice'").scan(&note); err != nil {
			return err
		}
		return tx.row("PRAGMA user_version").scan(&version)
	})
	if err != nil || note != "none" || version != len(migrations) {
		t.Errorf("note %q, version %d: %v", note, version, err)
	}
}

func TestExpiredRowsAreSwept(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), &Options{
		UsageRetention: 48 * time.Hour, AuditRetention: 24 * time.Hour,
	})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.machine.Clock = func() time.Time { return now }
	lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(entity string, debt int64) {
		t.Helper()
		lease, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		})
		if err == nil {
			_ = lease.Adjust(limiter.Tokens("rpm", debt))
			err = lease.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() (buckets, usage, audit int) {
		t.Helper()
		if err := r.write(t.Context(), time.Time{}, func(*tx) error { return nil }); err != nil { // waits for the sweep
			t.Fatal(err)
		}
		err := r.read(t.Context(), func(tx *tx) error {
			return tx.row(
				"SELECT (SELECT count(*) FROM buckets_v7), (SELECT count(*) FROM usage), (SELECT count(*) FROM audit)",
			).scan(&buckets, &usage, &audit)
		})
		if err != nil {
			t.Fatal(err)
		}
		return buckets, usage, audit
	}
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 100)); err != nil {
		t.Fatal(err)
	}
	acquire("idle", 0)
	acquire("debtor", 1_000_000) // refills in a week

	now = now.Add(2 * time.Hour)
	acquire("busy", 0)
	if buckets, usage, audit := count(); buckets != 2 || usage != 3 || audit != 1 {
		t.Errorf("after the idle bucket expired: %d buckets, %d usage, %d audit rows, want 2, 3 and 1", buckets,
			usage, audit)
	}
	now = now.Add(47 * time.Hour)
	acquire("late", 0)
	if buckets, usage, audit := count(); buckets != 2 || usage != 5 || audit != 0 {
		t.Errorf(
			"after retention: %d buckets, %d usage, %d audit rows, want debtor and late, all of busy but the "+
				"first hour of idle, none",
			buckets, usage, audit,
		)
	}
}

// TestDamagedUsageDoesNotStopTheSweep checks that a damaged usage row keeps only
// its own bucket.
func TestDamagedUsageDoesNotStopTheSweep(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.machine.Clock = func() time.Time { return now }
	limits := []limiter.Limit{limiter.PerMinute("rpm", 100)}
	consume := func(entity string) {
		t.Helper()
		if _, err := r.Consume(t.Context(), now, limiter.Charge{
			Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1), Limits: limits,
		}); err != nil {
			t.Fatal(err)
		}
	}
	consume("damaged")
	consume("idle")
	now = now.Add(3 * time.Hour)
	if err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
		_, err := tx.exec(`INSERT INTO usage (ns, entity, resource, window, start, counters, events, expires)
			VALUES (?, 'damaged', 'gpt-4', 'monthly', ?, 'nonsense', 1, ?)`, r.key,
			now.Truncate(24*time.Hour).Unix(), now.AddDate(1, 0, 0).Unix())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	consume("busy")
	var left []string
	err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
		return tx.query(func(scan func(...any) error) error {
			var entity string
			err := scan(&entity)
			left = append(left, entity)
			return err
		}, "SELECT entity FROM buckets_v7 ORDER BY entity")
	})
	if err != nil || !slices.Equal(left, []string{"busy", "damaged"}) {
		t.Errorf("buckets of %v are left: %v", left, err)
	}
}

// TestClientFarAheadSweepsNothing checks that a client whose clock is far ahead
// removes no bucket of others.
func TestClientFarAheadSweepsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	charge := func(entity string) limiter.Charge {
		return limiter.Charge{
			Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 100),
			Limits: []limiter.Limit{limiter.PerHour("rpm", 100)},
		}
	}
	now := time.Now()
	r := openFile(t, path, nil)
	if out, err := r.Consume(t.Context(), now, charge("alice")); err != nil || !out.Admitted {
		t.Fatal(out, err)
	}
	ahead := openFile(t, path, nil)
	for i := range 3 {
		if _, err := ahead.Consume(t.Context(), now.AddDate(1, 0, i), charge("bob")); err != nil {
			t.Fatal(err)
		}
	}
	if err := ahead.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Consume(t.Context(), now, charge("alice")); err != nil || out.Admitted {
		t.Errorf("admitted again: %v", err)
	}
}
