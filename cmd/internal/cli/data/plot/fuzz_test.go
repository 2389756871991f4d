package plot

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// arbitrary decodes a snapshot from each 18 bytes: the group and limit, the
// distance from the previous snapshot, and the tokens.
func arbitrary(data []byte, first int64, name string) (all []limiter.UsageSnapshot) {
	names := []string{"a", name}
	start := first
	for ; len(data) >= 18; data = data[18:] {
		kind := data[0]
		start += int64(binary.LittleEndian.Uint64(data[2:10])) >> (data[1] % 64)
		s := limiter.UsageSnapshot{
			Entity: names[kind&1], Resource: names[kind>>1&1], Window: append(windows, limiter.Window(name))[kind>>2&3],
			Start: time.Unix(start, 0), Counters: map[string]int64{},
		}
		if kind>>5 > 0 {
			s.Counters[names[kind>>4&1]] = int64(binary.LittleEndian.Uint64(data[10:18])) >> (kind >> 5 * 8)
		}
		all = append(all, s)
	}
	return all
}

func FuzzUsage(f *testing.F) {
	record := func(kind, shift byte, ahead, tokens int64) string {
		b := binary.LittleEndian.AppendUint64([]byte{kind, shift}, uint64(ahead))
		return string(binary.LittleEndian.AppendUint64(b, uint64(tokens)))
	}
	hour := record(0x20, 0, 3600, 90_000)
	f.Add([]byte(hour), int64(1_800_000_000), "key-abc", 80)
	f.Add([]byte(strings.Repeat(hour, 100)), int64(1_800_000_000), "key-abc", 40)
	f.Add([]byte(hour+record(0x20, 0, 250_000_000_000, -1<<62)+record(0x34, 0, 1<<62, 1<<62)), int64(-1),
		"\x1b[31m", 120)
	f.Add([]byte(hour+record(0x2c, 0, 86_400, -1)), int64(0), strings.Repeat("世", 100), math.MaxInt)
	f.Add([]byte(record(0x00, 0, 0, 0)+record(0x24, 0, 0, 0)), int64(0), "", math.MinInt)
	f.Fuzz(func(t *testing.T, data []byte, first int64, name string, width int) {
		snapshots := arbitrary(data[:min(len(data), 18*400)], first, name)
		for _, style := range []tty.Style{false, true} {
			text := Usage(snapshots, width, style)
			if (text == "") != (len(snapshots) == 0) || !utf8.ValidString(text) {
				t.Fatalf("%d snapshots: %q", len(snapshots), text)
			}
			if !bool(style) && strings.Contains(text, "\x1b") {
				t.Errorf("escapes in plain text: %q", text)
			}
			for line := range strings.Lines(text) {
				if got := tty.Width(strings.TrimSuffix(line, "\n")); got > max(width, 0) {
					t.Errorf("%d columns of %d: %q", got, width, line)
				}
			}
		}
	})
}
