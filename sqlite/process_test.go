package sqlite_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

var killRounds = flag.Int("kill.rounds", 100, "number of processes to kill")

// TestKilledProcessLosesNothing checks that every admission that a process printed
// before it was killed is stored, and that usage and balances agree.
func TestKilledProcessLosesNothing(t *testing.T) {
	path := t.TempDir() + "/limits.db"
	prepare(t, path)
	rng := rand.New(rand.NewPCG(1, 2))
	reported := map[string]int64{}
	for round := range *killRounds {
		p := start(t, "spend", path)
		for range 1 + rng.IntN(60) {
			if !p.out.Scan() {
				t.Fatalf("round %d: the process ended by itself: %s", round, p.err)
			}
			count(t, reported, p.out.Text())
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.out.Scan() { // output from before the kill counts, too
			count(t, reported, p.out.Text())
		}
		_ = p.Wait()
		checkBooks(t, path, reported, int64(round+1)*spenders)
	}
	checkIntegrity(t, path)
	t.Logf("%d rounds, %v admissions reported and found", *killRounds, reported)
}

func prepare(t *testing.T, path string) {
	t.Helper()
	repo, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	lim := limiterOn(t, repo)
	for _, key := range []string{"key-0", "key-1"} {
		if _, err := lim.CreateEntity(t.Context(), limiter.Entity{
			ID: key, Parent: "project", Cascade: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.SetResourceDefaults(t.Context(), "gpt-4", slow("rpm", plenty), slow("tpm", plenty)); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, reported map[string]int64, line string) {
	t.Helper()
	var key string
	var n int64
	if _, err := fmt.Sscan(line, &key, &n); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	reported[key]++
}

// checkBooks compares balances, usage and the printed admissions. Each goroutine of
// each round may have one admission that it did not print.
func checkBooks(t *testing.T, path string, reported map[string]int64, unreported int64) {
	t.Helper()
	ctx := context.Background()
	repo, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		t.Fatalf("the file does not open after a kill: %v", err)
	}
	defer repo.Close()
	lim := limiterOn(t, repo)
	sums := map[string]int64{}
	for _, key := range []string{"key-0", "key-1", "project"} {
		statuses, err := lim.Status(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		usage, err := lim.UsageSummary(ctx, limiter.UsageQuery{Entity: key, Resource: "gpt-4"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statuses {
			spent := s.Limit.Capacity - s.Available
			if usage.Total[s.Limit.Name] != spent {
				t.Fatalf("%s %s: usage says %d, the balance %d", key, s.Limit.Name, usage.Total[s.Limit.Name], spent)
			}
			if s.Available < 0 {
				t.Fatalf("%s %s: in debt by %d", key, s.Limit.Name, -s.Available)
			}
			sums[key+" "+s.Limit.Name] = spent
		}
		if spent := sums[key+" rpm"]; key != "project" && (spent < reported[key] || spent > reported[key]+unreported) {
			t.Fatalf("%s: %d admissions stored, %d reported", key, spent, reported[key])
		}
	}
	for _, limit := range []string{" rpm", " tpm"} {
		if children := sums["key-0"+limit] + sums["key-1"+limit]; sums["project"+limit] != children {
			t.Fatalf("the parent paid %d of%s, its children %d", sums["project"+limit], limit, children)
		}
	}
}

// TestKilledTopUpsAreRepeatedOnce kills processes that top up. Each begins with the
// IDs of the one before, and every ID adds its token and its event once.
func TestKilledTopUpsAreRepeatedOnce(t *testing.T) {
	path := t.TempDir() + "/limits.db"
	const capacity = 1_000_000
	repo := open(t, path, nil)
	lim := limiterOn(t, repo)
	if err := lim.SetSystemDefaults(t.Context(), slow("tokens", capacity)); err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Acquire(t.Context(), limiter.Request{
		Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("tokens", capacity),
	}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	reported := int64(0)
	for round := range 10 {
		p := start(t, "top up", path)
		for range 1 + rng.IntN(40) {
			if !p.out.Scan() {
				t.Fatalf("round %d: the process ended by itself: %s", round, p.err)
			}
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for {
			var n int64
			_, _ = fmt.Sscan(p.out.Text(), &n)
			if reported = max(reported, n); !p.out.Scan() { // output from before the kill counts, too
				break
			}
		}
		_ = p.Wait()
		left, err := lim.Available(t.Context(), "alice", "gpt-4")
		if err != nil {
			t.Fatal(err)
		}
		var events int64
		for ev, err := range lim.AuditEvents(t.Context(), "alice", "") {
			if err != nil || ev.Action != "bucket_topped_up" {
				t.Fatal(ev, err)
			}
			events++
		}
		if got := left.Get("tokens"); got != events || got < reported || got > reported+1 {
			t.Fatalf("round %d: %d tokens and %d events; %d top-ups were reported", round, got, events, reported)
		}
	}
	checkIntegrity(t, path)
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Fatalf("integrity check: %s %v", verdict, err)
	}
}

// TestProcessesShareOneLimitExactly has two processes make 20,000 attempts at 5,000
// tokens.
func TestProcessesShareOneLimitExactly(t *testing.T) {
	const tokens = 5000
	path := t.TempDir() + "/limits.db"
	repo := open(t, path, nil)
	lim := limiterOn(t, repo)
	if err := lim.SetSystemDefaults(t.Context(), slow("rpm", tokens)); err != nil {
		t.Fatal(err)
	}
	processes := []*process{start(t, "hammer", path), start(t, "hammer", path)}
	admitted, refused := 0, 0
	for _, p := range processes {
		var a, r int
		if p.out.Scan() {
			_, _ = fmt.Sscan(p.out.Text(), &a, &r)
		}
		if err := p.Wait(); err != nil {
			t.Fatalf("%v: %s", err, p.err)
		}
		t.Logf("one process: %d admitted, %d refused", a, r)
		admitted, refused = admitted+a, refused+r
	}
	if admitted != tokens || refused != 2*attempts-tokens {
		t.Errorf("%d admitted and %d refused, want %d and %d", admitted, refused, tokens, 2*attempts-tokens)
	}
}

// TestProcessesCreateTheFileTogether starts processes at the same time that all
// find no file.
func TestProcessesCreateTheFileTogether(t *testing.T) {
	const files, processes = 8, 6
	for i := range files {
		path := fmt.Sprintf("%s/%d.db", t.TempDir(), i)
		var all []*process
		for range processes {
			all = append(all, startPaused(t, "join", path))
		}
		for _, p := range all {
			_ = p.in.Close()
		}
		for _, p := range all {
			if err := p.Wait(); err != nil {
				t.Errorf("%v: %s", err, p.err)
			}
		}
		left, err := limiterOn(t, open(t, path, nil)).Available(t.Context(), "shared", "gpt-4")
		if err != nil || left.Get("rpm") != plenty-processes {
			t.Errorf("%s left after %d acquires: %v", left, processes, err)
		}
	}
}
