package locust

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
)

func TestMessagesAreTriples(t *testing.T) {
	frame, err := message{kind: msgStats, data: map[string]int{"user_count": 300}}.encode("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	if err := msgpack.Unmarshal(frame, &got); err != nil {
		t.Fatal(err)
	}
	want := []any{"stats", map[string]any{"user_count": uint16(300)}, "worker-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	m, err := decodeMessage(frame)
	var data map[string]int
	if err != nil || m.kind != msgStats || m.decode(&data) != nil || data["user_count"] != 300 {
		t.Errorf("%v, %v, %v", m, data, err)
	}
	for _, bad := range [][]byte{append(frame, 0), frame[:len(frame)-1], make([]byte, maxMessage+1)} {
		if m, err := decodeMessage(bad); err == nil {
			t.Errorf("%d bytes are %v", len(bad), m)
		}
	}
}

// Whatever arrives, the worker neither panics nor accepts half a message.
func FuzzDecodeMessage(f *testing.F) {
	order, err := msgpack.Marshal([]any{msgSpawn, map[string]any{
		"timestamp": 1.5, "user_classes_count": map[string]int{"A": 3}, "stop_timeout": nil, "parsed_options": map[string]any{"reset_stats": true},
	}, "worker-1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(order)
	f.Add([]byte{0x93, 0xa3, 'a', 'c', 'k', 0xc0, 0xc0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := decodeMessage(frame)
		if err != nil {
			return
		}
		var spawn spawnOrder
		var test testOrder
		_, _ = m.decode(&spawn), m.decode(&test)
		again, err := msgpack.Marshal([]any{m.kind, m.raw, "worker-1"})
		if err != nil {
			t.Fatal(err)
		}
		if copied, err := decodeMessage(again); err != nil || copied.kind != m.kind || string(copied.raw) != string(m.raw) {
			t.Errorf("%q becomes %q, %v", m, copied, err)
		}
	})
}
