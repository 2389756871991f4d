package data

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

func gaugeOf(entity, resource, limit string, left int64, full time.Duration) gauge {
	l := limiter.PerMinute(limit, 100)
	return gauge{
		entity: entity, resource: resource, limit: l, tokens: left * 1000,
		status: limiter.Status{Limit: l, FullAfter: full},
	}
}

var someGauges = []gauge{
	gaugeOf("key-a", "large", "rpm", 50, time.Minute), gaugeOf("key-b", "large", "tpm", -20, time.Hour),
	gaugeOf("key-c", "small", "rpm", 100, 0), gaugeOf("Team", "small", "tpm", 10, 2*time.Minute),
}

// press presses keys and returns the entities that are shown then.
func press(v *topView, keys string) (shown []string, quit bool) {
	for i := range len(keys) {
		quit = quit || v.press(keys[i])
	}
	for _, g := range v.choose(someGauges) {
		shown = append(shown, g.entity)
	}
	return shown, quit
}

func TestTopKeys(t *testing.T) {
	for keys, want := range map[string]string{
		"":                     "key-b Team key-a key-c",
		"s":                    "key-b Team key-a key-c", // the longest to fill
		"ss":                   "Team key-a key-b key-c",
		"sss":                  "key-a key-b key-c Team",
		"ssssr":                "key-b Team key-a key-c", // by limit, reversed
		"sssss":                "key-b Team key-a key-c",
		"r":                    "key-c key-a Team key-b",
		"/team\r":              "Team",
		"/TPM":                 "key-b Team",
		"/key-\x7f\x08y":       "key-b key-a key-c",
		"/é\x7flarge\r":        "key-b key-a",
		"/large\x1b":           "key-b Team key-a key-c",
		"/rs?q":                "",
		"?s":                   "key-b Team key-a key-c", // any key leaves the help
		"\x1b[Bss":             "Team key-a key-b key-c",
		"\x1b[6~ss":            "Team key-a key-b key-c",
		"/large\rs\x1bOA":      "key-b key-a",
		"/large\r\x1bss":       "Team key-a key-b key-c", // Esc clears the kept filter
		"/large\r\x1b\x1b[Bss": "Team key-a key-b key-c",
	} {
		v := topView{page: 2}
		got, quit := press(&v, keys)
		if strings.Join(got, " ") != want || quit {
			t.Errorf("%q: %v, quits %v; want %s", keys, got, quit, want)
		}
	}
	for _, keys := range []string{"q", "Q", "\x03", "\x04", "/abc\x03", "?\x03", "/q\rq", "\x1bq"} {
		if _, quit := press(&topView{}, keys); !quit {
			t.Errorf("%q does not quit", keys)
		}
	}
}

// TestTopWaitsForTheRestOfAKey presses Esc and an arrow, which begins as Esc does. No
// other key follows.
func TestTopWaitsForTheRestOfAKey(t *testing.T) {
	for keys, want := range map[string]string{"\x1b": "", "\x1b[B": "large"} {
		synctest.Test(t, func(t *testing.T) {
			o := topOptions{interval: time.Minute, view: topView{filter: "large"}}
			ctx, stop := context.WithCancel(t.Context())
			pressed, done := make(chan byte), make(chan error)
			drawn := "nothing"
			go func() {
				_, err := o.wait(ctx, pressed, func() error { drawn = o.view.filter; return nil })
				done <- err
			}()
			for i := range len(keys) {
				pressed <- keys[i]
				time.Sleep(escapeDelay / 2)
			}
			time.Sleep(escapeDelay)
			stop()
			if err := <-done; err != nil || drawn != want {
				t.Errorf("after %q: the filter is %q, %v; want %q", keys, drawn, err, want)
			}
		})
	}
}

func TestTopScrolls(t *testing.T) {
	v := topView{}
	v.scroll(10, 4)
	var got []int
	for _, key := range "jj k bbg" + " " + "  k" {
		v.press(byte(key))
		v.scroll(10, 4)
		got = append(got, v.skip)
	}
	if diff := cmp.Diff([]int{1, 2, 6, 5, 6, 2, 0, 0, 4, 6, 6, 5}, got); diff != "" {
		t.Errorf("limits above the screen (-want +got):\n%s", diff)
	}
}

func TestTopShowsTheFilterAndTheKeys(t *testing.T) {
	o := topOptions{
		Connection: &kit.Connection{Console: &kit.Console{}, Selected: &kit.Store{Name: "memory:"}},
		interval:   2 * time.Second,
	}
	seen := snapshot{at: time.Date(2026, time.January, 31, 15, 0, 0, 0, time.UTC), buckets: 4, gauges: someGauges}
	for _, step := range [][2]string{
		{"", "4 buckets, 4 limits, tightest first; ? helps, q quits"},
		{"/large", "filter: large _"},
		{"\rsr", `4 buckets, 4 limits, 2 with "large", longest to fill first, reversed; ? helps, q quits`},
		{"?", "reverse the order"},
		{"x/zz\r", "No limit contains zz; / chooses another filter, Esc clears it."},
	} {
		for i := range len(step[0]) {
			o.view.press(step[0][i])
		}
		if got := strings.Join(o.frame(seen, nil, 120, 20), "\n"); !strings.Contains(got, step[1]) {
			t.Errorf("after %q: no %q in\n%s", step[0], step[1], got)
		}
	}
	o.view = topView{skip: 9}
	lines := o.frame(seen, nil, 80, 6) // room for two limits
	if got := strings.Join(lines[4:], "\n"); len(lines) != 6 || !strings.Contains(got, "key-a") ||
		!strings.Contains(got, "key-c") {
		t.Errorf("the end of the list is not shown:\n%s", strings.Join(lines, "\n"))
	}
}
