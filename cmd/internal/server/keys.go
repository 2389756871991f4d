package server

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// keyTable remembers the answers of requests with an Idempotency-Key, for each
// token a bounded number for a bounded time. When a token has too many, its
// oldest answer is forgotten.
type keyTable struct {
	most   int // of a token
	ttl    time.Duration
	mu     sync.Mutex
	tokens map[owner]*keyShelf
}

// keyShelf holds the answers of one token.
type keyShelf struct {
	byKey map[string]*keptAnswer
	// order has the *keptAnswer whose reply is not nil, oldest first.
	order list.List
}

// keptAnswer is the answer to a request, or the place for it.
type keptAnswer struct {
	key    string
	digest [sha256.Size]byte // of the request
	reply  *web.Answer       // nil while the request is under way
	until  time.Time
}

var (
	errKeyBusy  = errors.New("a request with this Idempotency-Key is under way; retry in a second")
	errKeyTaken = errors.New("this Idempotency-Key belongs to another request; use a new key for each request")
)

func newKeyTable(most int, ttl time.Duration) *keyTable {
	return &keyTable{most: most, ttl: ttl, tokens: map[owner]*keyShelf{}}
}

// begin returns the answer of an earlier request with the key, or nil if this is
// the first. The caller of the first calls finish once.
func (t *keyTable) begin(by owner, key string, digest [sha256.Size]byte) (*web.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	now := time.Now()
	shelf := t.tokens[by]
	if shelf == nil {
		// A token without a shelf is rare, so that looking through all shelves
		// costs little.
		t.sweep(now)
		shelf = &keyShelf{byKey: map[string]*keptAnswer{}}
		t.tokens[by] = shelf
	}

	shelf.expire(now)

	kept := shelf.byKey[key]
	switch {
	case kept == nil:
		shelf.makeRoom(t.most)
		shelf.byKey[key] = &keptAnswer{key: key, digest: digest}
		return nil, nil //nolint:nilnil // the first request has no earlier answer
	case kept.digest != digest:
		return nil, errKeyTaken
	case kept.reply == nil:
		return nil, errKeyBusy
	}
	return kept.reply, nil
}

// sweep forgets tokens without answers, such as tokens that were revoked.
func (t *keyTable) sweep(now time.Time) {
	for by, shelf := range t.tokens {
		if shelf.expire(now); len(shelf.byKey) == 0 {
			delete(t.tokens, by)
		}
	}
}

// expire forgets answers that are too old.
func (s *keyShelf) expire(now time.Time) {
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		kept, _ := e.Value.(*keptAnswer)
		if now.Before(kept.until) {
			return
		}
		s.forget(e, kept)
	}
}

// makeRoom forgets the oldest answers until there is room for another. Requests under
// way are not in the order, so that they keep their keys.
func (s *keyShelf) makeRoom(most int) {
	for e := s.order.Front(); e != nil && len(s.byKey) >= most; e = s.order.Front() {
		kept, _ := e.Value.(*keptAnswer)
		s.forget(e, kept)
	}
}

func (s *keyShelf) forget(e *list.Element, kept *keptAnswer) {
	s.order.Remove(e)
	delete(s.byKey, kept.key)
}

// finish stores the answer of a request. Without an answer the key is free again.
func (t *keyTable) finish(by owner, key string, answer *web.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	shelf := t.tokens[by]
	kept := shelf.byKey[key]
	// Only a success is repeated: after anything else the client may try again
	// with its key.
	if answer == nil {
		delete(shelf.byKey, key)
		return
	}

	kept.reply, kept.until = answer, time.Now().Add(t.ttl)
	shelf.order.PushBack(kept)
}

// len returns the number of keys.
func (t *keyTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()

	n := 0
	for _, shelf := range t.tokens {
		n += len(shelf.byKey)
	}
	return n
}
