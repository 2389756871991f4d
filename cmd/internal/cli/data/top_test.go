package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/memory"
)

// topOf returns the options of top on a store, at the time of the test.
func topOf(out *bytes.Buffer) topOptions {
	c := &kit.Console{Out: out, Err: out, Now: time.Now}
	return topOptions{
		Connection: &kit.Connection{Console: c, Selected: &kit.Store{Name: kit.MemoryStore}}, interval: 2 * time.Second,
		most: 1000,
	}
}

// busyStore returns a store with buckets that have less and less left.
func busyStore(t *testing.T, entities int) *memory.Repository {
	t.Helper()
	repo := memory.New(nil)
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(
		t.Context(), "gpt-4", limiter.PerDay("rpd", 10), limiter.PerDay("tpd", 10_000),
	); err != nil {
		t.Fatal(err)
	}
	for i := range entities {
		lease, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: fmt.Sprintf("key-%d", i), Resource: "gpt-4", Consume: limiter.Tokens("rpd", int64(1+i%9)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			err = lease.Adjust(limiter.Tokens("tpd", 12_345))
		}
		if err := errors.Join(err, lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	return repo
}

func TestTopShowsTheTightestFirst(t *testing.T) {
	var out bytes.Buffer
	o := topOf(&out)
	seen, err := o.readBuckets(t.Context(), busyStore(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range o.view.choose(seen.gauges) {
		got = append(got, fmt.Sprint(g.entity, " ", g.limit.Name, " ", g.available()))
	}
	want := "key-1 tpd -2345,key-2 rpd 7,key-1 rpd 8,key-0 rpd 9,key-0 tpd 10000,key-2 tpd 10000"
	if strings.Join(got, ",") != want || seen.buckets != 3 || seen.cut {
		t.Errorf("%d buckets, %v, want %s", seen.buckets, got, want)
	}
	o.most = 2
	if seen, err = o.readBuckets(t.Context(), busyStore(t, 3)); err != nil || seen.buckets != 2 || !seen.cut {
		t.Errorf("%d buckets, cut %v: %v", seen.buckets, seen.cut, err)
	}
}

func TestTopFitsEverywhere(t *testing.T) {
	var out bytes.Buffer
	o := topOf(&out)
	seen, err := o.readBuckets(t.Context(), busyStore(t, 40))
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range []error{nil, errors.New(strings.Repeat("long ", 100))} {
		for width := 1; width < 160; width += 3 {
			for height := range 30 {
				lines := o.frame(seen, trouble, width, height)
				if len(lines) > height {
					t.Fatalf("%d lines at %dx%d", len(lines), width, height)
				}
				for _, line := range lines {
					if n := tty.Width(line); n > width {
						t.Fatalf("%d columns at %dx%d: %q", n, width, height, line)
					}
				}
			}
		}
	}
	text := strings.Join(o.frame(seen, nil, 80, 23), "\n")
	for _, want := range []string{
		"zae-limiter top   memory:", "40 buckets, 80 limits, tightest first; ? helps, q quits",
		"key-1   gpt-4     tpd    ▒▒▒", "-2,345/10,000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestTopMarksWhatIsNotEnforcedOrOff checks that a narrow terminal shows which
// limits are shadow limits, what they would refuse, and what is disabled.
func TestTopMarksWhatIsNotEnforcedOrOff(t *testing.T) {
	var out bytes.Buffer
	o := topOf(&out)
	repo := memory.New(nil)
	lim, err := limiter.New(repo, &limiter.Options{Now: o.Now})
	if err == nil {
		err = lim.SetResourceDefaults(t.Context(), "models", limiter.PerMinute("rpm", 1_000),
			limiter.Quota("spend", 300_000, limiter.EveryMonth).Shadow())
	}
	for _, key := range []string{"project-one", "project-two"} {
		if err == nil {
			_, err = lim.Acquire(t.Context(), limiter.Request{
				Entity: key, Resource: "models", Consume: limiter.Tokens("spend", 300_001),
			})
		}
	}
	if err == nil {
		err = lim.Disable(t.Context(), limiter.Scope{Entity: "project-two"}, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	seen, err := o.readBuckets(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{72, 80, 120} {
		text := strings.Join(o.frame(seen, nil, width, 23), "\n")
		if strings.Count(text, "spend (shadow)") != 2 || strings.Count(text, "disabled") != 2 ||
			!strings.Contains(text, "WOULD REFUSE") {
			t.Errorf("width %d:\n%s", width, text)
		}
		o.Width, o.Terminal = width, true
		out.Reset()
		if err := topListing().Print(o.Console, false, kit.Each(seen.gauges)); err != nil {
			t.Fatal(err)
		}
		text = out.String()
		if strings.Count(text, "shadow") != 2 || strings.Count(text, "yes") != 2 ||
			!strings.Contains(text, "WOULD REFUSE") || !strings.Contains(text, "DISABLED") {
			t.Errorf("width %d:\n%s", width, text)
		}
	}
}

// flaky is a repository that fails every read but the first.
type flaky struct {
	limiter.Repository
	looks *atomic.Int64
}

func (f flaky) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	if f.looks.Add(1) == 1 {
		return f.Repository.Buckets(ctx, now, of)
	}
	return func(yield func(limiter.Bucket, error) bool) { yield(limiter.Bucket{}, errors.New("the store is away")) }
}

// Top reads once every interval, continues when the store is unavailable, and ends
// with a key or with its context.
func TestTopLooksAgainUntilAKeyEndsIt(t *testing.T) {
	for _, by := range []string{"q", "\x03", "context"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			o := topOf(&out)
			repo := flaky{busyStore(t, 2), new(atomic.Int64)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			keys := make(chan byte)
			go func() {
				time.Sleep(5 * time.Second)
				keys <- 'x' // an unknown key
				if by == "context" {
					cancel()
				} else {
					keys <- by[0]
				}
			}()
			begun := time.Now()
			screen := tty.NewScreen(&out, func() (int, int) { return 80, 24 })
			if err := o.watch(ctx, repo, screen, keys); err != nil {
				t.Error(err)
			}
			if took, looks := time.Since(begun), repo.looks.Load(); took != 5*time.Second || looks != 3 {
				t.Errorf("%s: %d looks in %v", by, looks, took)
			}
			if text := out.String(); !strings.Contains(text, "not read: the store is away") ||
				!strings.HasSuffix(text, "\x1b[?25h") {
				t.Errorf("%s: %q", by, text)
			}
		})
	}
}
