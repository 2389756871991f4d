package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// The second request with a key gets the first answer, byte by byte, and has no
// effect.
func TestKeyReplaysItsAnswer(t *testing.T) {
	r := newMemoryRig(t, Options{})
	acquire := request{path: "/v1/acquire", key: "a b-1", body: acquireJSON("key", `{"tpm":100}`)}
	first, second := r.send(acquire), r.send(acquire)
	if first.Code != 200 || second.Code != 200 || first.Body.String() != second.Body.String() {
		t.Errorf("answers %d %s and %d %s", first.Code, first.Body, second.Code, second.Body)
	}
	if diff := cmp.Diff(first.Header(), second.Header()); diff != "" {
		t.Errorf("fields (-first +second):\n%s", diff)
	}
	if r.left("key") != "rpm=10 tpm=900" || r.Leases() != 1 {
		t.Errorf("%s is left, %d leases", r.left("key"), r.Leases())
	}
	r.want(422, request{path: "/v1/acquire", key: "a b-1", body: acquireJSON("key", `{"tpm":101}`)})
	for _, bad := range []string{"ö", string(make([]byte, 256))} {
		r.want(400, request{path: "/v1/acquire", key: bad, body: acquireJSON("key", `{"tpm":1}`)})
	}
}

// The same key of another token, or for another lease, is another key.
func TestKeysBelongToTokens(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"}, TokenEntry{
		Role: RoleAcquire, Namespace: "default",
	})
	r := newMemoryRig(t, Options{Tokens: tokens})
	for _, token := range secret {
		r.want(200, request{path: "/v1/acquire", key: "k", token: token, body: acquireJSON("key", `{"tpm":100}`)})
	}
	if r.left("key") != "rpm=10 tpm=800" {
		t.Errorf("%s is left", r.left("key"))
	}
}

// A commit is repeated safely after its answer was lost.
func TestKeyOfCommit(t *testing.T) {
	r := newMemoryRig(t, Options{})
	id := r.acquire("", "key", `{"tpm":100}`)
	commit := request{path: "/v1/leases/" + id + "/commit", key: "c", body: `{"used":{"tpm":70}}`}
	first, second := r.send(commit), r.send(commit)
	if first.Code != 200 || first.Body.String() != second.Body.String() {
		t.Errorf("answers %s and %s", first.Body, second.Body)
	}
	r.want(422, request{path: "/v1/leases/" + id + "/rollback", key: "c", body: `{"used":{"tpm":70}}`})
}

// A request without effect frees its key.
func TestKeyIsFreeAfterARefusal(t *testing.T) {
	r := newMemoryRig(t, Options{})
	blocker := r.acquire("", "key", `{"tpm":1000}`)
	acquire := request{path: "/v1/acquire", key: "k", body: acquireJSON("key", `{"tpm":100}`)}
	r.want(429, acquire)
	r.want(200, request{path: "/v1/leases/" + blocker + "/rollback", body: `{}`})
	r.want(200, acquire)
	if n := r.keys.len(); n != 1 {
		t.Errorf("%d keys are kept", n)
	}
}

// heldStore holds every charge until its channel is closed.
type heldStore struct {
	limiter.Repository
	begun chan struct{}
	hold  chan struct{}
}

func (h *heldStore) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	select {
	case h.begun <- struct{}{}:
	default:
	}
	select {
	case <-h.hold:
	case <-ctx.Done():
		return limiter.Outcome{}, ctx.Err()
	}
	return h.Repository.Consume(ctx, now, c)
}

// While the first request is under way the key is busy, and a client that left
// finds the answer later.
func TestKeyWhileUnderWay(t *testing.T) {
	store := &heldStore{memory.New(nil), make(chan struct{}, 1), make(chan struct{})}
	r := newRig(t, store, Options{})
	ctx, leave := context.WithCancel(context.Background())
	acquire := request{path: "/v1/acquire", key: "k", body: acquireJSON("key", `{"tpm":100}`), ctx: ctx}
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- r.send(acquire) }()
	<-store.begun
	busy := r.send(request{path: acquire.path, key: "k", body: acquire.body})
	if busy.Code != 409 || busy.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", busy.Code, busy.Header())
	}
	leave()
	close(store.hold)
	<-first
	r.want(200, request{path: acquire.path, key: "k", body: acquire.body})
	if r.left("key") != "rpm=10 tpm=900" || r.Leases() != 1 {
		t.Errorf("%s is left, %d leases", r.left("key"), r.Leases())
	}
}

// A token has a bounded number of keys, for a bounded time.
func TestKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory.New(nil), Options{MaxKeys: 3, KeyTTL: time.Minute})
		spend := func(key string) {
			r.want(200, request{
				path: "/v1/acquire", key: key,
				body: `{"entity_id":"key","resource":"gpt-4","consume":{"tpm":1},"commit":true}`,
			})
		}
		for i := range 5 {
			spend(fmt.Sprint(i))
		}
		if n := r.keys.len(); n != 3 {
			t.Errorf("%d keys are kept, want 3", n)
		}
		spend("4") // known
		spend("2") // known, and the oldest of a full table
		spend("0") // forgotten
		if r.left("key") != "rpm=10 tpm=994" {
			t.Errorf("%s is left", r.left("key"))
		}
		time.Sleep(2 * time.Minute)
		spend("4") // forgotten by now
		if r.left("key") != "rpm=10 tpm=993" || r.keys.len() != 1 {
			t.Errorf("%s is left, %d keys", r.left("key"), r.keys.len())
		}
	})
}
