package llm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

const priceFile = `# a sample
models:
  large: {input: 3000000, output: 15000000, cache_read: 300000, cache_write: 3750000, request: 10}
  small*:
    - {input: 200, output: 800}
    - {from: 2027-01-01, input: 100, output: 400}
    - {from: "2027-02-01", input: 50, output: 0}
  small-old:
    - {from: 2026-06-01, input: 7, output: 7}
  small-v2*: {input: 9, output: 9}
  "*": &default {input: 1, output: 2}
  4: *default
`

func date(text string) time.Time {
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestPrices(t *testing.T) {
	list, err := ParsePrices("prices.yaml", []byte(priceFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		model, at string
		input     int64
	}{
		{"large", "2026-01-01 00:00:00", 3_000_000},
		{"large-2", "2026-01-01 00:00:00", 1}, // no pattern, so the default
		{"Large", "2026-01-01 00:00:00", 1},
		{"", "2026-01-01 00:00:00", 1},
		{"*", "2026-01-01 00:00:00", 1},
		{"4", "2026-01-01 00:00:00", 1},
		{"small", "1999-01-01 00:00:00", 200},
		{"small-2026", "2026-12-31 23:59:59", 200},
		{"small-2026", "2027-01-01 00:00:00", 100},
		{"small*", "2027-01-31 23:59:59", 100},
		{"small", "2027-02-01 00:00:00", 50},
		{"small-v2", "2027-02-01 00:00:00", 9},
		{"small-v2.1", "2020-02-01 00:00:00", 9},
		{"small-old", "2026-06-01 00:00:00", 7},
		{"small-older", "2026-06-01 00:00:00", 200},
	} {
		got, err := list.Price(tc.model, date(tc.at))
		if err != nil || got.Input != tc.input {
			t.Errorf("%s at %s: %+v, %v; want %d", tc.model, tc.at, got, err, tc.input)
		}
	}
	berlin := time.FixedZone("", 3600)
	if got, _ := list.Price("small", time.Date(2027, 1, 1, 0, 59, 59, 0, berlin)); got.Input != 200 {
		t.Errorf("a price begins by another clock than UTC: %+v", got)
	}
	whole, _ := list.Price("small", date("2027-01-01 00:00:00"))
	if want := (Price{
		From: date("2027-01-01 00:00:00"), Input: 100, Output: 400, CacheRead: 100, CacheWrite: 100,
	}); !cmp.Equal(whole, want) {
		t.Errorf("%+v, want %+v", whole, want)
	}
	var names []string
	for name := range list.All() {
		names = append(names, name)
	}
	if want := []string{
		"large", "small*", "small*", "small*", "small-old", "small-v2*", "*", "4",
	}; !cmp.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

// Prices may be dollars, and an entry may have the sizes of its model.
func TestDollarsAndSizes(t *testing.T) {
	list, err := ParsePrices("f",
		[]byte(
			"models:\n  m: {input: $3, output: \"$15.50\", cache_read: $0.000001, request: $0, max_output: "+
				"8192, context: 200000}",
		))
	if err != nil {
		t.Fatal(err)
	}
	got, err := list.Price("m", date("2026-01-01 00:00:00"))
	want := Price{
		Input: 3_000_000, Output: 15_500_000, CacheRead: 1, CacheWrite: 3_000_000, MaxOutput: 8192,
		Context: 200_000,
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestNoPrice(t *testing.T) {
	list, err := ParsePrices("prices.yaml",
		[]byte(`{"models": {"m": [{"from": "2026-06-01", "input": 1, "output": 1}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		"m":  `invalid model "m": has no price before 2026-06-01 in prices.yaml; add one without a date to its list`,
		"m2": `invalid model "m2": has no price in prices.yaml; add the model, or a default named "*"`,
	} {
		_, err := list.Price(model, date("2026-05-31 23:59:59"))
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok || !errors.Is(err, ErrNoPrice) ||
			err.Error() != want {
			t.Errorf("%s: %v, want %s", model, err, want)
		}
	}
}

func TestWrongPrices(t *testing.T) {
	const m = "models:\n  m: "
	for text, want := range map[string]string{
		"":                               `f: the file is empty; list prices under models`,
		"# nothing":                      `f: the file is empty; list prices under models`,
		"{}":                             `f:1: there are no prices; list some under models`,
		"models: {}":                     `f:1: there are no prices; list some under models`,
		"models:":                        `f:1: models must be a mapping, not nothing`,
		"- a":                            `f:1: the file must be a mapping, not a list`,
		"models: [":                      `f:1: invalid YAML: did not find expected node content`,
		m + "*x":                         `f: invalid YAML: unknown anchor 'x' referenced`,
		m + "{input: 1, output: 1}\n---": `f:3: another document begins here; a price file is one document`,
		"model: {}":                      `f:1: there is no key "model" here; the only one is models`,
		"models: {}\nmodels: {}":         `f:2: "models" is listed twice; the first one is in line 1`,
		m + "{input: 1, output: 1}\n  m: {input: 1, output: 1}": `f:3: "m" is listed twice; the first one is in line 2`,
		m + "{input: 1, input: 2, output: 1}":                   `f:2: "input" is listed twice; the first one is in line 2`,
		m + "{input: 1, output: 1, outputs: 2}":                 `f:2: there is no key "outputs" here; the keys are from, input, output, cache_read, cache_write, request, max_output, context and image`,
		m + "{input: 1}":                                        `f:2: the price of "m" has no output; give one, or 0 for tokens that are free`,
		m + "{}": "f:2: the price of \"m\" has no input; give " +
			"one, or 0 for tokens that are free\ninvalid f:2: the price of \"m\" has no output; give one, or " +
			"0 for tokens that are free",
		m + "\n    input: 1\n    output: -1":             `f:4: output of "m" must not be negative, but is -1`,
		m + "{input: 1.5, output: 1}":                    `f:2: input of "m" must be a whole number of millionths of a dollar in plain digits, such as 3000000 for $3, not 1.5`,
		m + "{input: 1e3, output: 1}":                    `f:2: input of "m" must be a whole number of millionths of a dollar in plain digits, such as 3000000 for $3, not 1e3`,
		m + "{input: 1_000, output: 1}":                  `f:2: input of "m" must be a whole number of millionths of a dollar in plain digits, such as 3000000 for $3, not 1_000`,
		m + "{input: 010, output: 1}":                    `f:2: input of "m" must be a whole number of millionths of a dollar in plain digits, such as 3000000 for $3, not 010`,
		m + "{input: \"1\", output: 1}":                  `f:2: input of "m" must be a whole number of millionths of a dollar, not the text "1"`,
		m + "{input: $3.0000001, output: 1}":             `f:2: input of "m" must have at most six decimals, not $3.0000001`,
		m + "{input: $-3, output: 1}":                    `f:2: input of "m" must not be negative, but is $-3`,
		m + "{input: $, output: 1}":                      `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $`,
		m + "{input: $3., output: 1}":                    `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $3.`,
		m + "{input: $.5, output: 1}":                    `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $.5`,
		m + "{input: $03, output: 1}":                    `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $03`,
		m + "{input: $1e3, output: 1}":                   `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $1e3`,
		m + "{input: $3.0.0, output: 1}":                 `f:2: input of "m" must be dollars in plain digits, such as $3 or $0.25, not $3.0.0`,
		m + "{input: $1000000001, output: 1}":            `f:2: input of "m" must be at most $1000000000, not $1000000001`,
		m + "{input: $9999999999999999999, output: 1}":   `f:2: input of "m" must be at most $1000000000, not $9999999999999999999`,
		m + "{input: 1, output: 1, max_output: 0}":       `f:2: max_output of "m" must be at least 1; leave it out if it is not known`,
		m + "{input: 1, output: 1, context: $3}":         `f:2: context of "m" must be a whole number of tokens, not the text "$3"`,
		m + "{input: 1, output: 1, context: 8k}":         `f:2: context of "m" must be a whole number of tokens, not the text "8k"`,
		m + "{input: 1, output: 1, max_output: 1.5}":     `f:2: max_output of "m" must be a whole number of tokens in plain digits, such as 8192, not 1.5`,
		m + "{input: 1, output: 1, context: 1000000001}": `f:2: context of "m" must be at most 1000000000, not 1000000001`,
		m + "{input: , output: 1}":                       `f:2: input of "m" must be a whole number of millionths of a dollar, not nothing`,
		m + "{input: [1], output: 1}":                    `f:2: input of "m" must be a whole number of millionths of a dollar, not a list`,
		m + "{input: 1000000000000001, output: 1}":       `f:2: input of "m" must be at most 1000000000000000, not 1000000000000001`,
		m + "{input: 99999999999999999999, output: 1}":   `f:2: input of "m" must be at most 1000000000000000, not 99999999999999999999`,
		m + "3":  `f:2: the price of "m" must be a mapping, not 3`,
		m + "[]": `f:2: the model "m" has an empty list of prices; give one, or remove the model`,
		m + "{from: 2026-13-01, input: 1, output: 1}":                                                    `f:2: from, in the price of "m", must be a date such as 2027-01-31, not the text "2026-13-01"`,
		m + "{from: 2026-01-01T00:00:00Z, input: 1, output: 1}":                                          `f:2: from, in the price of "m", must be a date such as 2027-01-31, not 2026-01-01T00:00:00Z`,
		m + "\n  - {from: 2026-01-01, input: 1, output: 1}\n  - {input: 1, output: 1}":                   `f:4: the price of "m" needs a date after the one before it; give from, and sort the list by it`,
		m + "\n  - {from: 2026-01-01, input: 1, output: 1}\n  - {from: 2026-01-01, input: 1, output: 1}": `f:4: the price of "m" needs a date after the one before it; give from, and sort the list by it`,
		"models:\n  m*x: {input: 1, output: 1}":                                                          `f:2: "m*x" must be the name of a model with at most 256 characters, or its beginning and one "*" at the end`,
		"models:\n  ? [a]\n  : {input: 1, output: 1}":                                                    `f:2: a key of models must be a word, not a list`,
		"models:\n  a: &a {input: 1, output: 1}\n  <<: *a":                                               `f:3: merge keys are not supported; repeat the prices`,
		"models:\n  a: {x: 1}\n  b: {y: 1}":                                                              "f:2: there is no key \"x\" here; the keys are from, input, output, cache_read, cache_write, request, max_output, context and image\ninvalid f:3: there is no key \"y\" here; the keys are from, input, output, cache_read, cache_write, request, max_output, context and image",
	} {
		_, err := ParsePrices("f", []byte(text))
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok || err.Error() != "invalid "+want {
			t.Errorf("%q:\n got %v\nwant invalid %s", text, err, want)
		}
	}
}

// Aliases do not make a file arbitrarily large.
func TestManyPrices(t *testing.T) {
	text := "x: 1\nmodels:\n  a: &a\n" + strings.Repeat("  - {from: 2026-01-01, input: 1, output: 1}\n", 1000)
	for i := range 200 {
		text += "  m" + strings.Repeat("x", i) + ": *a\n"
	}
	_, err := ParsePrices("f", []byte(text))
	if err == nil || strings.Count(err.Error(), "\n") >= maxProblems {
		t.Errorf("%.200v", err)
	}
}

func FuzzPrices(f *testing.F) {
	f.Add([]byte(priceFile), "small-v2", int64(0))
	f.Add([]byte(`{"models": {"m": [{"from": "2026-06-01", "input": 1, "output": 1}]}}`), "m", int64(1<<40))
	f.Add([]byte("models:\n  a: &a [*a]"), "a", int64(5))
	f.Fuzz(func(t *testing.T, text []byte, model string, seconds int64) {
		list, err := ParsePrices("f", text)
		if err != nil {
			if _, ok := errors.AsType[*limiter.InvalidError](err); !ok || list != nil {
				t.Fatalf("%v, %v", list, err)
			}
			return
		}
		count := 0
		for name, p := range list.All() {
			count++
			if p.Cost(Usage{Input: 1, Output: 1}) < 0 || min(
				p.Input, p.Output, p.CacheRead, p.CacheWrite, p.Request,
			) < 0 {
				t.Fatalf("%q costs %+v", name, p)
			}
			if got, err := list.Price(name, p.From); !strings.HasSuffix(name, "*") && (err != nil || got != p) {
				t.Fatalf("%q: %+v, %v; want %+v", name, got, err, p)
			}
		}
		if count == 0 {
			t.Fatal("a file without prices is valid")
		}
		if p, err := list.Price(model, time.Unix(seconds, 0)); err == nil && p.From.After(time.Unix(seconds, 0)) {
			t.Fatalf("%+v applies too early", p)
		}
	})
}
