package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

func lineOf(entity, model, limit string, key bool, n int64) line {
	return line{entity, model, limit, key, 4 * n, 3 * n, n % 4 * n, n % 4 * n / 2, n / 7 * 3}
}

func TestSummaryGolden(t *testing.T) {
	all := []line{
		lineOf("shop", large, rpm, false, 12), lineOf("shop", large, tpm, false, 24_481),
		lineOf("shop", large, spend, false, 24_481), lineOf("shop", small, rpm, false, 3),
		lineOf("web", large, rpm, true, 7), lineOf("web", large, tpm, true, 4), lineOf("lab", large, tpm, false, 1_234),
	}
	v := verdict{
		limits: 6, checks: 1304, worst: check{excess: -24}, entity: "web", model: small, limit: rpm,
		at: 9800 * time.Millisecond,
	}
	f := picture()
	golden.Check(t, "testdata/summary.txt", summary(f, all, v, false))
	f.Elapsed = 15_312 * time.Millisecond
	v.broken, v.worst.excess = 3, 12_500
	golden.Check(t, "testdata/summary-broken.txt", summary(f, all, v, true))
}

func TestVerdictSentence(t *testing.T) {
	v := verdict{limits: 1, checks: 2, worst: check{excess: 0}, entity: "web", model: small, limit: rpm}
	for _, c := range []struct {
		name, want string
		v          verdict
	}{
		{"nothing", "Nothing was admitted", verdict{}},
		{"to the last token", "The tightest had 0 tokens to spare:\nrpm of web on small", v},
		{"money", "The tightest had $0.000024 to spare:\nspend of", verdict{
			limits: 1, checks: 2, worst: check{excess: -24_000}, limit: spend,
		}},
		{
			"one thousandth over",
			"MORE WAS ADMITTED THAN ALLOWED in windows that end with 1 of 2 admissions.\nThe worst is 0.001 " +
				"tokens over",
			verdict{limits: 1, checks: 2, broken: 1, worst: check{excess: 1}},
		},
	} {
		if got := c.v.sentence(false); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	long := picture()
	long.Store = "sqlite:/a/path/to/a/file/that/is/quite/long/" + strings.Repeat("x", 60)
	for line := range strings.Lines(brief(
		long, []line{lineOf("shop", large, tpm, false, 99_999)}, v, minWidth, false,
	)) {
		if n := tty.Width(strings.TrimSpace(line)); n > minWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestBriefFitsOneScreen checks that the summary of a terminal, what follows it and
// the prompt of a shell fit 24 lines of 80 columns.
func TestBriefFitsOneScreen(t *testing.T) {
	f := blank(options{Store: "sqlite (temporary file)", Seed: 999_999})
	f.Elapsed, f.SettingUp = 15*time.Second, false
	var all []line
	for i := range f.Rows {
		r := &f.Rows[i]
		r.Refused = 19
		all = append(all, line{r.Entity, r.Model, rpm, r.Key, 35, 13, 0, 0, 3},
			line{r.Entity, r.Model, tpm, r.Key, 20_063, 7_041, 12_626, 3_971, 13_727},
			line{r.Entity, r.Model, spend, r.Key, 250_000, 72_400, 189_400, 11_800, 94_200})
	}
	v := verdict{limits: 42, checks: 1304, worst: check{excess: -24}}
	text := brief(f, all, v, 80, false) + next
	if n := strings.Count(text, "\n"); n > 23 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(text) {
		if n := tty.Width(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden.Check(t, "testdata/brief.txt", text)
}
