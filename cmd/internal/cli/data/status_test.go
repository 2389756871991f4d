package data

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// printStatuses prints statuses as a table of a terminal.
func printStatuses(t *testing.T, width int, all ...limiter.Status) string {
	t.Helper()
	var out bytes.Buffer
	c := &kit.Console{Out: &out, Err: &out, Terminal: true, Width: width}
	if err := statusListing(c, "").Print(c, false, kit.Each(statusRows(all, nil))); err != nil {
		t.Fatal(err)
	}
	warnZones(c, all)
	return out.String()
}

// TestStatusOnANarrowTerminal checks that 80 columns keep the time until a key in
// debt is full, the mark of a shadow limit, and names.
func TestStatusOnANarrowTerminal(t *testing.T) {
	budget := limiter.Quota("spend", 50_000_000, limiter.EveryMonth)
	status := limiter.Status{
		Entity: "key-abc", Resource: "models", Source: "resource", Limit: budget, Available: -1_250_000,
		FullAfter: 30 * 24 * time.Hour, WindowEnd: time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC),
	}
	shadow := status
	shadow.Limit = limiter.PerMinute("tpm", 100_000).Shadow()
	shadow.Available = 100_000
	for _, want := range []string{"FULL IN", "30d", "MODE", "shadow", "key-abc", "models", "spend", "RESOURCE"} {
		if got := printStatuses(t, 80, status, shadow); !strings.Contains(got, want) {
			t.Errorf("%s is missing:\n%s", want, got)
		}
	}
}

// TestStatusOfAnUnknownZone checks that a quota whose zone cannot be loaded does not
// look full.
func TestStatusOfAnUnknownZone(t *testing.T) {
	status := limiter.Status{
		Entity: "key", Resource: "gpt-4", Source: "system",
		Limit: limiter.Quota("q", 10, limiter.EveryDay).In("Mars/Olympus"), Available: 3,
	}
	if got := fullIn(status); got.Plain != "" || got.Display != kit.None {
		t.Errorf("full in %+v", got)
	}
	const want = `q of key for gpt-4 never fills, and its calls fail: the zone "Mars/Olympus" is not known here`
	if got := printStatuses(t, 120, status); !strings.Contains(got, want) {
		t.Errorf("%s\ndoes not say\n%s", got, want)
	}
}

// Names in usage come from stores to which other programs write.
func TestCountersMoveNoCursor(t *testing.T) {
	if got := counters(map[string]int64{"rpm\n": 1}, kit.Amount); got.Display != `rpm\n=1` || got.Plain != `rpm\n=1` {
		t.Errorf("got %q and %q", got.Display, got.Plain)
	}
}
