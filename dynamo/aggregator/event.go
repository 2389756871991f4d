package aggregator

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Event is an audit event that was removed from its store.
type Event struct {
	limiter.AuditEvent
	Namespace string // ID of the namespace
	Expired   bool   // removed by age, not by a user
}

// eventLine is the JSON form of an event in an archive.
type eventLine struct {
	ID        string         `json:"event_id"`
	Entity    string         `json:"entity_id"`
	Action    string         `json:"action"`
	Timestamp string         `json:"timestamp"`
	Principal *string        `json:"principal"`
	Resource  *string        `json:"resource"`
	Details   map[string]any `json:"details"`
	Namespace string         `json:"namespace_id"`
	DeletedBy string         `json:"deleted_by"`
}

// line returns the JSON form of the event.
func (e *Event) line() ([]byte, error) {
	l := eventLine{
		ID: e.ID, Entity: e.Entity, Action: e.Action, Timestamp: e.At.UTC().Format(time.RFC3339),
		Principal: orNull(e.Principal), Resource: orNull(e.Resource), Details: e.Details,
		Namespace: e.Namespace, DeletedBy: "user",
	}

	// Queries of the archive expect an object in every line.
	if l.Details == nil {
		l.Details = map[string]any{}
	}

	if e.Expired {
		l.DeletedBy = "ttl"
	}

	return json.Marshal(l)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// file returns the name of the event's file, without the extension. It depends only
// on the time of the event, so that a repeated event goes to the same file.
func (e *Event) file() string {
	return e.At.UTC().Format("audit/year=2006/month=01/day=02/audit-2006-01-02T15")
}

// lines holds the lines of a file by event.
type lines map[eventKey][]byte

// eventKey identifies an event.
type eventKey struct {
	ID        string `json:"event_id"`
	Namespace string `json:"namespace_id"`
}

// parseLines parses a file. The content may be uncompressed, since some clients
// decompress it on the way.
func parseLines(content []byte) (lines, error) {
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		if content, err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}

	all := lines{}
	for line := range bytes.Lines(content) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}

		var k eventKey
		if err := json.Unmarshal(line, &k); err != nil {
			return nil, err
		}
		all[k] = line
	}
	return all, nil
}

// put adds or replaces an event. It reports whether that changed anything.
func (l lines) put(e *Event) (bool, error) {
	line, err := e.line()
	k := eventKey{e.ID, e.Namespace}
	if err != nil || bytes.Equal(l[k], line) {
		return false, err
	}

	l[k] = line
	return true, nil
}

// gzip returns the compressed lines, oldest first. The same lines always give the
// same bytes.
func (l lines) gzip() ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)

	// IDs begin with the time, so they sort as the events happened.
	for _, k := range slices.SortedFunc(maps.Keys(l), func(a, b eventKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Namespace, b.Namespace))
	}) {
		if _, err := w.Write(append(l[k], '\n')); err != nil {
			return nil, err
		}
	}

	err := w.Close()
	return out.Bytes(), err
}
