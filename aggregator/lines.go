package aggregator

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"slices"
)

// lines are those of a file, each by the event it holds.
type lines map[eventKey][]byte

// eventKey tells events apart.
type eventKey struct {
	ID        string `json:"event_id"`
	Namespace string `json:"namespace_id"`
}

// parseLines reads a file, which something on the way may have unpacked already.
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

// put adds an event, and tells whether that changes anything.
func (l lines) put(e *Event) (bool, error) {
	line, err := e.line()
	k := eventKey{e.ID, e.Namespace}
	if err != nil || bytes.Equal(l[k], line) {
		return false, err
	}
	l[k] = line
	return true, nil
}

// gzip is the file of all lines, by age. The same lines are the same bytes.
func (l lines) gzip() ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
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
