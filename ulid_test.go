package limiter

import (
	"strings"
	"sync"
	"testing"
	"time"
)

func TestULIDsSpellTheirTime(t *testing.T) {
	for _, c := range []struct {
		ms   int64
		want string
	}{
		{1469918176385, "01ARYZ6S41"}, // the example of the specification
		{1, "0000000001"},
		{1<<48 - 1, "7ZZZZZZZZZ"},
	} {
		id := new(ulids).next(time.UnixMilli(c.ms))
		if len(id) != 26 || id[:10] != c.want {
			t.Errorf("%d: %s, want %s and 16 more", c.ms, id, c.want)
		}
		if i := strings.IndexFunc(id, func(r rune) bool {
			return !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", r)
		}); i >= 0 {
			t.Errorf("%s has a character that is no digit at %d", id, i)
		}
	}
}

func TestCrockfordSpellsEveryBit(t *testing.T) {
	for want, id := range map[string][16]byte{
		"00000000000000000000000000": {},
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		"40000000000000000000000001": {0: 128, 15: 1},
		"000000000G0000000000000010": {5: 16, 15: 32},
	} {
		if got := crockford(id); got != want {
			t.Errorf("%v: %s, want %s", id, got, want)
		}
	}
}

// TestULIDsRise checks that IDs increase within a millisecond, and if the clock
// goes back by any amount.
func TestULIDsRise(t *testing.T) {
	var u ulids
	last := ""
	at := time.UnixMilli(1_700_000_000_000)
	for i, step := range []time.Duration{
		0, 0, time.Millisecond, -time.Hour, 0, 2 * time.Hour, -100 * 365 * 24 * time.Hour, time.Nanosecond,
	} {
		at = at.Add(step)
		for range 100 {
			id := u.next(at)
			if id <= last {
				t.Fatalf("step %d: %s after %s", i, id, last)
			}
			last = id
		}
	}
}

func TestULIDsCarry(t *testing.T) {
	u := ulids{last: [16]byte{0, 0, 0, 0, 0, 9, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}
	if got := u.next(time.UnixMilli(9)); got != "000000000A0000000000000000" {
		t.Errorf("the last id of a millisecond is followed by %s", got)
	}
}

func TestULIDsDifferUnderConcurrentUse(t *testing.T) {
	var u ulids
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				id := u.next(time.UnixMilli(5))
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 2000 {
		t.Errorf("%d different ids of 2000", len(seen))
	}
}
