package locust

import (
	"strings"
	"testing"
	"time"

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

// The decoder calls itself for each level, so that a short message could take
// all memory.
func TestDeeplyNestedMessageIsRefused(t *testing.T) {
	nested := func(depth int, open ...byte) []byte {
		frame := append([]byte{0x93, 0xa3}, "ack"...)
		for range depth {
			frame = append(frame, open...)
		}
		return append(frame, 0xc0, 0xc0)
	}
	for name, open := range map[string][]byte{
		"array": {0x91}, "long array": {0xdc, 0, 1}, "map": {0x81, 0xa1, 'k'},
		"long map": {0xdf, 0, 0, 0, 1, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := decodeMessage(nested(maxNesting-1, open...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, depth := range []int{maxNesting, 50_000} {
			if _, err := decodeMessage(nested(depth, open...)); err == nil ||
				!strings.Contains(err.Error(), "nested more than 32 deep") {
				t.Errorf("%s, %d levels: %v", name, depth, err)
			}
		}
	}
}

// Every kind of value is read to its end.
func TestNestingCountsTheBytesOfValues(t *testing.T) {
	for _, value := range []any{
		nil, true, 1, -1, 200, -100, 60_000, -30_000, 1 << 30, -1 << 30, int64(1) << 60, -int64(1) << 60, 1.5,
		float32(1.5), "a", strings.Repeat("a", 100), strings.Repeat("a", 1000), strings.Repeat("a", 1<<17),
		[]byte("a"), make([]byte, 1000), make([]byte, 1<<17), make([]int, 100), make([]int, 1<<17),
		map[string]int{"a": 1},
		time.Unix(1, 0), time.Unix(1, 1), time.Unix(-1, 1),
	} {
		frame, err := msgpack.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkNesting(frame); err != nil {
			t.Errorf("%.20v: %v", value, err)
		}
		whole := append([]byte("\x93\xa3ack"), frame...)
		if _, err := decodeMessage(append(whole, 0xc0)); len(frame) <= maxMessage/2 && err != nil {
			t.Errorf("%.20v: %v", value, err)
		}
		if _, err := decodeMessage(whole[:len(whole)-1]); err == nil {
			t.Errorf("%.20v: half of it is accepted", value)
		}
	}
}

// Whatever arrives, the worker neither panics nor accepts half a message.
func FuzzDecodeMessage(f *testing.F) {
	order, err := msgpack.Marshal([]any{msgSpawn, map[string]any{
		"timestamp": 1.5, "user_classes_count": map[string]int{"A": 3}, "stop_timeout": nil,
		"parsed_options": map[string]any{"reset_stats": true},
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
		if copied, err := decodeMessage(again); err != nil || copied.kind != m.kind ||
			string(copied.raw) != string(m.raw) {
			t.Errorf("%q becomes %q, %v", m, copied, err)
		}
	})
}
