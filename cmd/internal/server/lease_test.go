package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/memory"
)

func TestLeaseFromAcquireToCommit(t *testing.T) {
	r := newMemoryRig(t, Options{})
	id := r.acquire("", "key", `{"rpm":1,"tpm":500}`)
	at := "/v1/leases/" + id
	got := r.want(200, request{path: at + "/consume", body: `{"consume":{"tpm":100}}`})
	if diff := cmp.Diff(
		map[string]any{"lease_id": id, "consumed": map[string]any{"rpm": 1.0, "tpm": 600.0}, "ended": false},
		got,
	); diff != "" {
		t.Errorf("consume (-want +got):\n%s", diff)
	}
	r.want(429, request{path: at + "/consume", body: `{"consume":{"tpm":500}}`})
	r.want(200, request{path: at + "/adjust", body: `{"adjust":{"tpm":-50}}`})
	r.want(400, request{path: at + "/adjust", body: `{"adjust":{"tpm":-9999}}`})
	r.want(400, request{path: at + "/adjust", body: `{}`})
	if got := r.left("key"); got != "rpm=9 tpm=400" {
		t.Errorf("before the commit, %s is left", got)
	}
	got = r.want(200, request{path: at + "/commit", body: `{"used":{"tpm":450}}`})
	if diff := cmp.Diff(
		map[string]any{"lease_id": id, "consumed": map[string]any{"rpm": 1.0, "tpm": 450.0}, "ended": true},
		got,
	); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	if got := r.left("key"); got != "rpm=9 tpm=550" {
		t.Errorf("after the commit, %s is left", got)
	}
	for _, verb := range []string{"consume", "adjust", "commit", "rollback"} {
		body := map[string]string{
			"consume": `{"consume":{"tpm":1}}`, "adjust": `{"used":{"tpm":1}}`, "commit": `{}`,
			"rollback": `{}`,
		}[verb]
		r.want(410, request{path: at + "/" + verb, body: body})
	}
	if n := r.Leases(); n != 0 {
		t.Errorf("%d leases are open", n)
	}
}

func TestRollbackGivesEverythingBack(t *testing.T) {
	r := newMemoryRig(t, Options{})
	id := r.acquire("", "key", `{"rpm":1,"tpm":500}`)
	r.want(200, request{path: "/v1/leases/" + id + "/rollback", body: `{}`})
	if got := r.left("key"); got != "rpm=10 tpm=1000" {
		t.Errorf("%s is left", got)
	}
}

// An acquire with commit spends and leaves no lease.
func TestAcquireAndCommitAtOnce(t *testing.T) {
	r := newMemoryRig(t, Options{MaxLeases: 1})
	for range 3 {
		answer := r.want(200, request{
			path: "/v1/acquire",
			body: `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"commit":true}`,
		})
		if answer["lease_id"] != nil || answer["expires_at"] != nil {
			t.Errorf("answer %v", answer)
		}
	}
	if got := r.left("key"); got != "rpm=7 tpm=1000" || r.Leases() != 0 {
		t.Errorf("%s is left, %d leases", got, r.Leases())
	}
}

// A refusal says when to retry, and shows nothing of the parent but the name of
// its limit.
func TestRefusal(t *testing.T) {
	r := newMemoryRig(t, Options{})
	w := r.send(request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":11}`)})
	if w.Code != 429 || w.Header().Get("Retry-After") != "" {
		t.Errorf("above the capacity: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	r.acquire("", "key", `{"rpm":10}`)
	w = r.send(request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	if w.Code != 429 || w.Header().Get("Retry-After") != "6" ||
		w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("RateLimit") == "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if n := r.Leases(); n != 1 {
		t.Errorf("%d leases are open, want 1", n)
	}
}

// A lease is known only to the token that acquired it.
func TestLeasesOfOthers(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"},
		TokenEntry{Role: RoleAdmin, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	id := r.acquire(secret[0], "key", `{"rpm":1}`)
	unknown := r.send(request{path: "/v1/leases/00000000000000000000000000000000/commit", token: secret[1], body: `{}`})
	other := r.send(request{path: "/v1/leases/" + id + "/commit", token: secret[1], body: `{}`})
	if other.Code != 410 || other.Body.String() != unknown.Body.String() {
		t.Errorf("the lease of another: %d %s, an unknown one: %d %s", other.Code, other.Body, unknown.Code,
			unknown.Body)
	}
	r.want(200, request{path: "/v1/leases/" + id + "/commit", token: secret[0], body: `{}`})
}

// Beyond MaxLeases nothing is charged, and a lease that ends makes room.
func TestMaxLeases(t *testing.T) {
	r := newMemoryRig(t, Options{MaxLeases: 2})
	first := r.acquire("", "key", `{"rpm":1}`)
	r.acquire("", "key", `{"rpm":1}`)
	w := r.send(request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || r.left("key") != "rpm=8 tpm=1000" {
		t.Errorf("%d, %s is left", w.Code, r.left("key"))
	}
	r.want(200, request{path: "/v1/leases/" + first + "/rollback", body: `{}`})
	r.acquire("", "key", `{"rpm":1}`)
}

// One of several tokens cannot take all leases.
func TestLeasesAreShared(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"}, TokenEntry{
		Role: RoleAcquire, Namespace: "default",
	})
	r := newMemoryRig(t, Options{Tokens: tokens, MaxLeases: 4})
	first := r.acquire(secret[0], "key", `{"rpm":1}`)
	r.acquire(secret[0], "key", `{"rpm":1}`)
	r.want(503, request{path: "/v1/acquire", token: secret[0], body: acquireJSON("key", `{"rpm":1}`)})
	r.acquire(secret[1], "key", `{"rpm":1}`)
	r.want(200, request{path: "/v1/leases/" + first + "/commit", token: secret[0], body: `{}`})
	r.acquire(secret[0], "key", `{"rpm":1}`)
}

// A lease that is not ended in time is committed with its corrections.
func TestLeasesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(t, memory.New(nil), Options{LeaseTTL: time.Minute, Now: func() time.Time { return begin }})
		early := r.acquire("", "early", `{"tpm":500}`)
		r.want(200, request{path: "/v1/leases/" + early + "/adjust", body: `{"used":{"tpm":100}}`})
		time.Sleep(30 * time.Second)
		late := r.acquire("", "late", `{"tpm":500}`)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := r.left("early"); got != "rpm=10 tpm=900" || r.Leases() != 1 {
			t.Errorf("%s is left, %d leases", got, r.Leases())
		}
		r.want(410, request{path: "/v1/leases/" + early + "/rollback", body: `{}`})
		r.want(200, request{path: "/v1/leases/" + late + "/rollback", body: `{}`})
		time.Sleep(time.Hour)
		synctest.Wait()
		again := r.acquire("", "again", `{"tpm":1}`) // the timer starts anew
		time.Sleep(61 * time.Second)
		synctest.Wait()
		r.want(410, request{path: "/v1/leases/" + again + "/commit", body: `{}`})
	})
}

// Many clients settle their leases at the same time, each lease once.
func TestConcurrentClients(t *testing.T) {
	r := newMemoryRig(t, Options{})
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[string][]int{}
	for i := range 20 {
		entity := fmt.Sprintf("key-%d", i)
		id := r.acquire("", entity, `{"tpm":100}`)
		for _, verb := range []string{"commit", "rollback", "commit"} {
			all.Go(func() {
				w := r.send(request{path: "/v1/leases/" + id + "/" + verb, body: `{}`})
				mu.Lock()
				codes[entity] = append(codes[entity], w.Code)
				mu.Unlock()
			})
		}
	}
	all.Wait()
	for entity, got := range codes {
		slices.Sort(got)
		if !slices.Equal(got, []int{200, 410, 410}) {
			t.Errorf("%s: statuses %v", entity, got)
		}
	}
	if r.Leases() != 0 {
		t.Errorf("%d leases are open", r.Leases())
	}
}

// Draining refuses new leases, lets clients end theirs, and commits the rest.
func TestDraining(t *testing.T) {
	r := newMemoryRig(t, Options{})
	one, two := r.acquire("", "one", `{"tpm":100}`), r.acquire("", "two", `{"tpm":100}`)
	r.want(200, request{path: "/v1/leases/" + two + "/adjust", body: `{"used":{"tpm":300}}`})
	r.want(200, request{method: "GET", path: "/readyz"})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.Quiesce(ended)
	r.want(503, request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	r.want(503, request{method: "GET", path: "/readyz"})
	r.want(200, request{method: "GET", path: "/healthz"})
	r.want(200, request{path: "/v1/leases/" + one + "/rollback", body: `{}`})
	if err := r.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.Quiesce(context.Background()) // nothing is left, so it returns
	if r.Leases() != 0 || r.left("one") != "rpm=10 tpm=1000" || r.left("two") != "rpm=10 tpm=700" {
		t.Errorf("%d leases, %s, %s", r.Leases(), r.left("one"), r.left("two"))
	}
}

// Quiesce returns when the last client has ended its lease.
func TestQuiesceWaitsForTheLastLease(t *testing.T) {
	r := newMemoryRig(t, Options{})
	id := r.acquire("", "key", `{"tpm":100}`)
	done := make(chan struct{})
	go func() {
		r.Quiesce(context.Background())
		close(done)
	}()
	for !r.draining.Load() { // until Quiesce has begun
		time.Sleep(time.Millisecond)
	}
	r.want(200, request{path: "/v1/leases/" + id + "/commit", body: `{}`})
	<-done
}
