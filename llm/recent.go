package llm

import (
	"container/list"
	"sync"
)

// recent is a map that forgets the entries used longest ago. It is safe for
// concurrent use.
type recent[K comparable, V any] struct {
	mu      sync.Mutex
	limit   int
	order   list.List // of entries, the latest first
	entries map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, entries: map[K]*list.Element{}}
}

// get returns the value of a key.
func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	at, ok := r.entries[key]
	if !ok {
		return value, false
	}
	r.order.MoveToFront(at)
	return r.entry(at).value, true
}

// update replaces the value of a key by what change returns. Its argument is the
// value so far, and whether there was one.
func (r *recent[K, V]) update(key K, change func(V, bool) V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.entries[key]; ok {
		e := r.entry(at)
		e.value = change(e.value, true)
		r.order.MoveToFront(at)
		return
	}

	var none V
	r.entries[key] = r.order.PushFront(&entry[K, V]{key, change(none, false)})
	if r.order.Len() > r.limit {
		last := r.order.Back()
		delete(r.entries, r.entry(last).key)
		r.order.Remove(last)
	}
}

// remove forgets a key.
func (r *recent[K, V]) remove(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.entries[key]; ok {
		delete(r.entries, key)
		r.order.Remove(at)
	}
}

func (r *recent[K, V]) entry(at *list.Element) *entry[K, V] {
	e, _ := at.Value.(*entry[K, V])
	return e
}
