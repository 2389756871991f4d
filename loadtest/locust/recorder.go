package locust

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// Texts of errors may contain anything, and the master keeps them all, so a
// worker sends only so many different ones, and so many bytes of each.
const (
	maxErrors    = 100
	maxErrorText = 500
	moreErrors   = "other errors"
)

// report holds the statistics since the last one.
type report struct {
	Entries []*entry           `msgpack:"stats"`
	Total   *entry             `msgpack:"stats_total"`
	Errors  map[string]failure `msgpack:"errors"`
	Counts  map[string]int     `msgpack:"user_classes_count"`
	Users   int                `msgpack:"user_count"`
}

// failure counts an error of one type and name of events.
type failure struct {
	Name        string  `msgpack:"name"`
	Method      string  `msgpack:"method"`
	Error       string  `msgpack:"error"`
	Occurrences int64   `msgpack:"occurrences"`
	First       float64 `msgpack:"first_seen"`
	Last        float64 `msgpack:"last_seen"`
}

// recorder adds events up. It is safe for concurrent use.
type recorder struct {
	mu      sync.Mutex
	start   float64
	entries map[entryKey]*entry
	errors  map[string]failure
	texts   map[string]bool // the texts of errors so far
}

type entryKey struct{ name, method string }

func newRecorder() *recorder {
	r := &recorder{}
	r.clear()
	return r
}

// clear forgets everything.
func (r *recorder) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The bound on texts holds for a whole test, so reset keeps them.
	r.texts = map[string]bool{}
	r.reset()
}

func (r *recorder) reset() {
	r.start = seconds(time.Now())
	r.entries, r.errors = map[entryKey]*entry{}, map[string]failure{}
}

// record counts an event.
func (r *recorder) record(ev loadtest.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entry(ev.Name, ev.Type).add(&ev)
	if ev.Err != nil {
		at := seconds(ev.At)
		r.addFailure(failure{
			Name: ev.Name, Method: ev.Type, Error: r.bounded(ev.Err.Error()), Occurrences: 1, First: at,
			Last: at,
		})
	}
}

func (r *recorder) entry(name, method string) *entry {
	key := entryKey{name, method}
	e := r.entries[key]
	if e == nil {
		e = newEntry(name, method, r.start)
		r.entries[key] = e
	}
	return e
}

func (r *recorder) bounded(text string) string {
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "..."
	}
	// The cut may fall inside a character, and an error may hold any bytes.
	text = strings.ToValidUTF8(text, "?")

	if !r.texts[text] && len(r.texts) >= maxErrors {
		return moreErrors
	}
	r.texts[text] = true
	return text
}

// addFailure merges a failure with others of its kind. All workers use the same
// key, by which the master adds them up.
func (r *recorder) addFailure(f failure) {
	sum := sha256.Sum256([]byte(f.Method + "." + f.Name + "." + f.Error))
	key := hex.EncodeToString(sum[:])
	if known, ok := r.errors[key]; ok {
		f.Occurrences += known.Occurrences
		f.First, f.Last = min(f.First, known.First), max(f.Last, known.Last)
	}
	r.errors[key] = f
}

// take returns the statistics since the last call.
func (r *recorder) take() *report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &report{Entries: []*entry{}, Total: newEntry("Aggregated", "", r.start), Errors: r.errors}

	for _, e := range r.entries {
		rep.Entries = append(rep.Entries, e)
		rep.Total.merge(e)
	}

	r.reset()
	return rep
}

// restore adds a report again that could not be sent.
func (r *recorder) restore(rep *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range rep.Entries {
		r.entry(e.Name, e.Method).merge(e)
	}
	for _, f := range rep.Errors {
		r.addFailure(f)
	}
}
