package demo

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

func prices(model string, _ time.Time) (llm.Price, error) {
	if model == small {
		return llm.Price{Input: 200_000, Output: 800_000}, nil
	}
	return llm.Price{Input: 3_000_000, Output: 15_000_000}, nil
}

func optionsOf(repo limiter.Repository, seed uint64, out *bytes.Buffer) options {
	open := func(context.Context) (limiter.Repository, error) { return repo, nil }
	return options{Open: open, Store: "memory:", Seed: seed, Duration: 15 * time.Second, Out: out, Prices: prices}
}

// Every seed shows all kinds of events within fifteen seconds, on the clock of
// synctest.
func TestRunShowsWhatALimiterDoes(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(t.Context(), optionsOf(memory.New(nil), seed, &out)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`zae-limiter demo: a small LLM gateway for 15s on memory:, seed \d+\n`,
				`s  refused \S+ +(large|small) +wait [0-9.]+s: (\S+ )?[rt]pm needs [0-9,]+, (has [0-9,]+ of|owes) [0-9,]+\n`,
				`s  refused \S+ +(large|small) +wait [0-9]+[mhd]: (\S+ )?spend needs \$[0-9.]+, (has \$[0-9.]+ of|owes) \$[0-9.]+\n`,
				`s  failed  \S+ +(large|small) +its [0-9,]+ tokens are rolled back\n`,
				`s  debt    \S+ +(large|small) +[0-9,]+ tokens, not [0-9,]+: \S+ owes [0-9,]+ for [0-9.]+s\n`,
				`14.0s  calls \d+   admitted [1-9]\d*   refused [1-9]`,
				`\n  bot     large  rpm +12 +\d+ `,
				`(?m) tpm +[0-9,]+ +[0-9,]+ +[1-9][0-9,]* +[0-9,]+ +[1-9][0-9,]* `, // used later, and as debt
				`\nNothing was admitted beyond the limits: the check covered all windows that end\nwith one of \d+ admissions on 42 limits\.\nThe tightest had ([0-9.]+ tokens|\$[0-9.]+) to spare:\n`,
				`\nLater corrections are outside this promise`,
				`\nNext: zae-limiter demo --web`,
			} {
				if !regexp.MustCompile(want).MatchString(out.String()) {
					t.Errorf("seed %d: nothing matches %s in\n%s", seed, want, &out)
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("seed %d: there are escape codes among plain lines", seed)
			}
		})
	}
}

// With escrow, the check allows its slack, and the summary counts the calls that
// needed no request.
func TestRunWithEscrow(t *testing.T) {
	local := false
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			o := optionsOf(memory.New(nil), seed, &out)
			o.Escrow = true
			if err := run(t.Context(), o); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, &out)
			}
			want := regexp.MustCompile(
				`\nexceed allowed\. The excess is debt\. Until it is paid, calls are admitted only\nwith tokens that escrow holds already\.\n\nEscrow sent [1-9][0-9,]* charges and admitted ([0-9,]+) calls without one\.\nIt returned [0-9,]+ units that it had held, and dropped [0-9,]+\.\n\nNext: zae-limiter demo --web`,
			)
			match := want.FindStringSubmatch(out.String())
			if match == nil {
				t.Fatalf("seed %d: nothing matches %s in\n%s", seed, want, &out)
			}
			local = local || match[1] != "0"
		})
	}
	if !local {
		t.Error("no call was admitted without a request")
	}
}

// A second run of the month begins with full quotas.
func TestQuotasAreFullAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, ctx := memory.New(nil), t.Context()
		for range 2 {
			lim, err := openGateway(ctx, repo, newBook())
			if err != nil {
				t.Fatal(err)
			}
			d, err := lim.Explain(ctx, limiter.Request{
				Entity: "bot", Resource: large, Consume: limiter.Tokens(spend, 30_000),
			})
			if err != nil || !d.Admitted() {
				t.Errorf("%v, %v", d, err)
			}
			if _, err := lim.Acquire(ctx, limiter.Request{
				Entity: "bot", Resource: large, Consume: limiter.Tokens(spend, 30_000),
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSomeCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := optionsOf(memory.New(nil), 3, &out)
		o.Duration = time.Minute
		if err := run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{" waited  batch", " gave up batch"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in\n%s", want, &out)
			}
		}
	})
}

// The book agrees exactly with the usage that the store counted.
func TestBookAgreesWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		lim, err := openGateway(t.Context(), memory.New(nil), b)
		if err != nil {
			t.Fatal(err)
		}
		ctx, fail := context.WithCancelCause(t.Context())
		(&gateway{lim: lim, prices: prices, book: b, fail: fail, end: b.start.Add(time.Minute)}).run(ctx, newTraffic(1))
		if err := context.Cause(ctx); err != nil {
			t.Fatal(err)
		}
		f, err := camera{lim: lim, book: b}.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := f.Totals; n.Calls != n.Admitted+n.Refused+n.GaveUp || n.Waiting != 0 || n.Working != 0 {
			t.Errorf("calls do not add up: %+v", n)
		}
		for _, l := range b.lines(f, time.Now()) {
			used, err := lim.UsageSummary(t.Context(), limiter.UsageQuery{Entity: l.Entity, Resource: l.Model})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := l.used(), used.Total[l.Limit]; got != want || want == 0 {
				t.Errorf("%s %s %s: the book says %d, the store %d", l.Entity, l.Model, l.Limit, got, want)
			}
			if l.Admitted > l.Allowed {
				t.Errorf("%+v", l)
			}
		}
	})
}

// An interrupt ends the running calls, which give back their tokens, and still
// shows the summary.
func TestInterruptEndsTheRunWithItsSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		o := optionsOf(memory.New(nil), 1, &out)
		o.Screen = tty.NewScreen(&out, func() (int, int) { return 100, 40 })
		if err := run(ctx, o); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(out.String(), "\x1b[?25h")
		for _, want := range []string{
			"stopped after 5.0s on memory:, seed 1", "Nothing was admitted beyond the limits",
		} {
			if !strings.Contains(after, want) {
				t.Errorf("%q does not come after the cursor is back, but\n%s", want, after)
			}
		}
	})
}

// generous is a repository that admits every third refused charge.
type generous struct {
	limiter.Repository
	refusals *atomic.Int64
}

func (g generous) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	repo, err := g.Repository.Namespace(ctx, name)
	return generous{repo, g.refusals}, err
}

func (g generous) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := g.Repository.Consume(ctx, now, charge)
	if err == nil && !out.Admitted && g.refusals.Add(1)%3 == 0 {
		out.Admitted = true
	}
	return out, err
}

func TestSummaryReportsAStoreThatAdmitsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		err := run(t.Context(), optionsOf(generous{memory.New(nil), new(atomic.Int64)}, 1, &out))
		if err == nil || err.Error() != "more was admitted than the limits allow" {
			t.Errorf("error %v", err)
		}
		want := `\nMORE WAS ADMITTED THAN ALLOWED in windows that end with [1-9][0-9,]* of [0-9,]+ admissions\.\nThe worst is ([0-9.,]+ tokens|\$[0-9.]+) over: ([rt]pm|spend) of \S+ on (large|small), [0-9.]+s into the run\.\n$`
		if !regexp.MustCompile(want).MatchString(out.String()) ||
			strings.Contains(out.String(), "Nothing was admitted") {
			t.Errorf("nothing matches %s in\n%s", want, &out)
		}
	})
}

// failing is a repository that becomes unavailable after some calls.
type failing struct {
	limiter.Repository
	charges *atomic.Int64
}

var errAway = errors.New("store is away")

func (f failing) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	repo, err := f.Repository.Namespace(ctx, name)
	return failing{repo, f.charges}, err
}

func (f failing) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if f.charges.Add(1) > 20 {
		return limiter.Outcome{}, errAway
	}
	return f.Repository.Consume(ctx, now, charge)
}

func TestFailingStoreEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(
			t.Context(), optionsOf(failing{memory.New(nil), new(atomic.Int64)}, 1, &out),
		); !errors.Is(err, errAway) {
			t.Errorf("error %v", err)
		}
	})
}

// closedPipe is a writer that fails with EPIPE.
type closedPipe struct{}

var errPipe = errors.New("broken pipe")

func (closedPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestClosedOutputEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		o := optionsOf(memory.New(nil), 1, nil)
		o.Out = closedPipe{}
		if err := run(t.Context(), o); !errors.Is(err, errPipe) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begun); took >= o.Duration {
			t.Errorf("it went on for %v", took)
		}
	})
}

func TestClosedStoreIsAnError(t *testing.T) {
	repo := memory.New(nil)
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), optionsOf(repo, 1, &out)); !errors.Is(err, limiter.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// A terminal shows the first frame before the store is open, which can take long.
// Lines start when the store is open.
func TestFirstFrameDoesNotWaitForTheStore(t *testing.T) {
	var screen, lines bytes.Buffer
	for _, o := range []options{
		{Out: &lines},
		{Out: &screen, Screen: tty.NewScreen(&screen, func() (int, int) { return 80, 24 })},
	} {
		o.Store, o.Duration = "memory:", time.Second
		o.Open = func(context.Context) (limiter.Repository, error) {
			if text := screen.String(); o.Screen != nil && (!strings.Contains(text, "setting up") ||
				!strings.Contains(text, "search")) {
				t.Errorf("the first frame is\n%s", text)
			}
			return nil, errAway
		}
		if err := run(t.Context(), o); !errors.Is(err, errAway) {
			t.Errorf("error %v", err)
		}
	}
	if !strings.HasSuffix(screen.String(), "\x1b[?25h") {
		t.Error("the cursor stays hidden after an error")
	}
	if lines.Len() > 0 {
		t.Errorf("lines without a store: %s", &lines)
	}
}
