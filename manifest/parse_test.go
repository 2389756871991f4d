package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// fixtures reads the manifests in a folder of testdata: valid, invalid, or
// beyond (invalid in a way that a schema cannot express).
func fixtures(tb testing.TB, folder string) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"*.yaml", "*.json"} {
		names, err := filepath.Glob(filepath.Join("testdata", folder, pattern))
		check(tb, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			check(tb, err)
			files[filepath.Base(name)] = data
		}
	}
	if len(files) == 0 {
		tb.Fatalf("there is nothing in %s", folder)
	}
	return files
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func parse(tb testing.TB, text string) *manifest.Manifest {
	tb.Helper()
	m, err := manifest.Parse([]byte(text))
	check(tb, err)
	return m
}

func equal(tb testing.TB, what string, got, want any) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEveryProblemIsNamedWithItsPlace(t *testing.T) {
	for _, folder := range []string{"invalid", "beyond"} {
		for name, data := range fixtures(t, folder) {
			t.Run(name, func(t *testing.T) {
				m, err := manifest.Parse(data)
				bad, ok := errors.AsType[*manifest.ParseError](err)
				if !ok || m != nil {
					t.Fatalf("parsed as %v, error %v", m, err)
				}
				golden.Check(t,
					filepath.Join("testdata", folder, strings.TrimSuffix(name, filepath.Ext(name))+".txt"),
					bad.Error()+"\n")
			})
		}
	}
}

func TestParseReadsEveryLevel(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["full.yaml"]))
	equal(t, "manifest", m, &manifest.Manifest{Namespace: "tenant-a", Levels: []limiter.Config{
		{
			OnUnavailable: limiter.Block,
			Limits:        []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.Custom("tpm", 5000, 2500, time.Hour)},
		},
		{Scope: limiter.Scope{Resource: "gpt-4"}, Limits: []limiter.Limit{
			limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000).WithBurst(15_000),
		}},
		{
			Scope:  limiter.Scope{Resource: "openai/gpt-4.1-mini"},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 1000)},
		},
		{Scope: limiter.Scope{Entity: "key:abc@example.com"}, Limits: []limiter.Limit{limiter.PerDay("rpm", 20)}},
		{
			Scope:  limiter.Scope{Entity: "key:abc@example.com", Resource: "gpt-4"},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
		},
		{Scope: limiter.Scope{Entity: "project-1"}, Limits: []limiter.Limit{limiter.PerMinute("tpm", 20_000)}},
	}})
}

// TestBurstIsTheCapacity checks that a burst is the capacity, and that the key
// capacity is then the default of the refill amount, as on the command line.
func TestBurstIsTheCapacity(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["burst.yaml"]))
	equal(t, "limits", m.Levels[0].Limits, []limiter.Limit{
		limiter.PerMinute("alone", 100), limiter.PerMinute("burst", 100).WithBurst(150),
		limiter.PerSecond("lower", 100).WithBurst(50), limiter.PerMinute("refilled", 10).WithBurst(150),
	})
}

// TestShortLimitsMatchTheCommandLine checks the short form of limits.
func TestShortLimitsMatchTheCommandLine(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["short.yaml"]))
	equal(t, "system", m.Levels[0].Limits, []limiter.Limit{limiter.PerMinute("rpm", 60)})
	equal(t, "limits", m.Levels[1].Limits, []limiter.Limit{
		limiter.Custom("images", 50, 50, 12*time.Hour),
		limiter.PerMinute("long", 100).WithBurst(150),
		limiter.Within("once", 1, time.Hour),
		limiter.PerMinute("quoted", 100),
		limiter.PerMinute("rpm", 100).WithBurst(150),
		limiter.WithinBurst("tpd", 1_000_000, 200_000, 24*time.Hour),
		limiter.Within("tpm", 10_000, time.Minute),
	})
	// The properties of a stack are read as YAML 1.1, and have the long form only.
	_, err := manifest.FromProperties(map[string]any{"System": map[string]any{
		"Limits": map[string]any{"rpm": "100/min"},
	}})
	if err == nil {
		t.Error("a property was read in its short form")
	}
}

// TestQuotasAndShadowLimits checks both forms of limits that are not plain rates.
func TestQuotasAndShadowLimits(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["kinds.yaml"]))
	equal(t, "system", m.Levels[0].Limits, []limiter.Limit{
		limiter.PerMinute("rpm", 100).Shadow(),
		limiter.Quota("spend", 50_000_000, limiter.EveryDay).In("Europe/Berlin"),
		limiter.Quota("tokens", 1_000_000, limiter.EveryMonth),
		limiter.Within("tpm", 10_000, time.Minute).Shadow(),
	})
	equal(t, "limits", m.Levels[1].Limits, []limiter.Limit{
		limiter.Quota("calls", 100, limiter.EveryHour),
		limiter.PerMinute("rpm", 10).WithBurst(20),
		limiter.Quota("tokens", 5_000_000, limiter.EveryMonth).In("America/New_York").Shadow(),
		limiter.PerMinute("tpm", 10).Shadow(),
	})
	equal(t, "UTC", parse(t, "system: {limits: {a: {capacity: 1, window: hour, zone: UTC}}}").Levels[0].Limits,
		[]limiter.Limit{limiter.Quota("a", 1, limiter.EveryHour)})
}

// TestFieldsOfQuotasAndShadowLimits checks the changes between kinds of limits.
func TestFieldsOfQuotasAndShadowLimits(t *testing.T) {
	berlin := limiter.Quota("n", 5, limiter.EveryDay).In("Europe/Berlin")
	for _, c := range []struct {
		before, after limiter.Limit
		want          []manifest.Field
	}{
		{
			limiter.PerMinute("n", 5), limiter.PerMinute("n", 5).Shadow(),
			[]manifest.Field{{Name: "n.shadow", After: "true"}},
		},
		{berlin.Shadow(), berlin, []manifest.Field{{Name: "n.shadow", Before: "true"}}},
		{berlin, berlin.In("UTC"), []manifest.Field{{Name: "n.zone", Before: "Europe/Berlin"}}},
		{berlin, limiter.Quota("n", 6, limiter.EveryMonth).In("Europe/Berlin"), []manifest.Field{
			{Name: "n.capacity", Before: "5", After: "6"}, {Name: "n.window", Before: "day", After: "month"},
		}},
		{limiter.PerMinute("n", 5), berlin, []manifest.Field{
			{Name: "n.refill_amount", Before: "5"},
			{Name: "n.refill_period", Before: "60"},
			{Name: "n.window", After: "day"},
			{Name: "n.zone", After: "Europe/Berlin"},
		}},
	} {
		change := manifest.Change{
			Before: limiter.Config{Limits: []limiter.Limit{c.before}},
			After:  limiter.Config{Limits: []limiter.Limit{c.after}},
		}
		equal(t, fmt.Sprint(c.before, " to ", c.after), change.Fields(), c.want)
	}
}

func TestEmptySectionsDeclareThatThereIsNothing(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["empty-sections.yaml"]))
	var got []string
	for _, level := range m.Levels {
		if len(level.Limits) > 0 || level.OnUnavailable != "" {
			t.Errorf("%+v is not empty", level)
		}
		got = append(got, manifest.Level(level.Scope)+" "+manifest.Target(level.Scope))
	}
	equal(t, "levels", got, []string{
		"system ", "resource claude", "resource gemini", "resource gpt-4", "entity key-1/_default_",
		"entity key-1/gpt-4",
	})
}

// TestFormsReadBack checks that Parse reads what YAML and JSON write.
func TestFormsReadBack(t *testing.T) {
	for name, data := range fixtures(t, "valid") {
		m := parse(t, string(data))
		for form, write := range map[string]func() ([]byte, error){"YAML": m.YAML, "JSON": m.JSON} {
			text, err := write()
			check(t, err)
			again, err := manifest.Parse(text)
			if err != nil {
				t.Errorf("%s as %s: %v\n%s", name, form, err, text)
				continue
			}
			equal(t, name+" as "+form, again, m)
			var value any
			if form == "JSON" {
				in := json.NewDecoder(bytes.NewReader(text))
				in.UseNumber()
				check(t, in.Decode(&value))
				again, err = manifest.FromValue(value)
				check(t, err)
				equal(t, name+" as a value", again, m)
			}
		}
	}
}

// TestHashMatchesPython compares with hashes that Python's json.dumps and
// hashlib made from the same files.
func TestHashMatchesPython(t *testing.T) {
	data, err := os.ReadFile("testdata/hashes.json")
	check(t, err)
	var want map[string]string
	check(t, json.Unmarshal(data, &want))
	got := map[string]string{}
	for name, data := range fixtures(t, "valid") {
		m := parse(t, string(data))
		got[name] = m.Hash()
		slices.Reverse(m.Levels) // the order of the levels does not matter
		equal(t, name+" backwards", m.Hash(), got[name])
	}
	equal(t, "hashes", got, want)
	if seen := slices.Compact(slices.Sorted(maps.Values(got))); len(seen) != len(got) {
		t.Errorf("only %d of %d hashes differ", len(seen), len(got))
	}
}

func TestManifestMadeByHandIsChecked(t *testing.T) {
	rpm := limiter.PerMinute("rpm", 1)
	for want, m := range map[string]manifest.Manifest{
		`namespace`:                      {Namespace: "a b"},
		`entity a/b/_default_: invalid `: {Levels: []limiter.Config{{Scope: limiter.Scope{Entity: "a/b"}}}},
		`resource 4: invalid `:           {Levels: []limiter.Config{{Scope: limiter.Scope{Resource: "4"}}}},
		`on_unavailable belongs to`: {Levels: []limiter.Config{{
			Scope: limiter.Scope{Resource: "a"}, OnUnavailable: limiter.Allow,
		}}},
		`on_unavailable is "maybe", but`: {Levels: []limiter.Config{{OnUnavailable: "maybe"}}},
		`system: invalid capacity "0"`: {Levels: []limiter.Config{{
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 0)},
		}}},
		`limit rpm is declared twice`: {Levels: []limiter.Config{{Limits: []limiter.Limit{rpm, rpm}}}},
		`resource a is declared twice`: {Levels: []limiter.Config{
			{Scope: limiter.Scope{Resource: "a"}}, {Scope: limiter.Scope{Resource: "a"}},
		}},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %s", err, want)
		}
	}
}

// TestReferencesAreBounded checks that aliases of aliases do not fill the
// memory.
func TestReferencesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("entities:\n  e: &all\n    resources:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "      r%d: {}\n", i)
	}
	for i := range 20_000 { // 20 million in all
		fmt.Fprintf(&b, "  e%d: *all\n", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := manifest.Parse([]byte(b.String()))
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<29 {
		t.Errorf("%d MB were allocated", taken>>20)
	}
	if err == nil || !strings.Contains(err.Error(), "at most 100000 levels") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, folder := range []string{"valid", "invalid", "beyond"} {
		for _, data := range fixtures(f, folder) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse(data)
		if err != nil {
			bad, ok := errors.AsType[*manifest.ParseError](err)
			if !ok || len(bad.Problems) == 0 {
				t.Fatalf("error %v", err)
			}
			return
		}
		check(t, m.Validate())
		text, err := m.YAML()
		check(t, err)
		equal(t, "read back", parse(t, string(text)), m)
	})
}

// manyLimits returns n limits.
func manyLimits(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "l%d: {capacity: 1}, ", i)
	}
	return "{" + b.String() + "}"
}

// TestLimitsAreCountedBeforeTheyAreBuilt checks that aliases do not make a
// small file a large manifest.
func TestLimitsAreCountedBeforeTheyAreBuilt(t *testing.T) {
	s := compiledSchema(t)
	for n, valid := range map[int]bool{1000: true, 1001: false} {
		text := "system: {limits: " + manyLimits(n) + "}"
		_, err := manifest.Parse([]byte(text))
		if (err == nil) != valid || err != nil &&
			err.Error() != "1:18: system.limits: a level has at most 1000 limits, not 1001" {
			t.Errorf("%d limits: %v", n, err)
		}
		if err := s.Validate(decodeAsEditor(t, []byte(text))); (err == nil) != valid {
			t.Errorf("%d limits: the schema says %v", n, err)
		}
	}
	var b strings.Builder
	b.WriteString("resources:\n  r: &r {limits: " + manyLimits(1000) + "}\n")
	for i := range 500 {
		fmt.Fprintf(&b, "  r%d: *r\n", i)
	}
	_, err := manifest.Parse([]byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "a manifest has at most 500000 limits") {
		t.Errorf("error %v", err)
	}
}

func TestProblemsEnd(t *testing.T) {
	var b strings.Builder
	b.WriteString("resources:\n  r: &r {limits: {rpm: {capacity: 0}, tpm: {capacity: 0}}}\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "  r%d: {limits: {rpm: {capacity: 0}}}\n", i)
	}
	_, err := manifest.Parse([]byte(b.String()))
	bad, ok := errors.AsType[*manifest.ParseError](err)
	if !ok || len(bad.Problems) != 1000 {
		t.Errorf("%d problems", len(bad.Problems))
	}
}

// TestMoneyIsWrittenInDollars reads back what YAML writes. JSON and the hash have
// millionths, as stores and programs do.
func TestMoneyIsWrittenInDollars(t *testing.T) {
	money := []limiter.Limit{
		limiter.Quota("spend", 50_000_000, limiter.EveryMonth),
		limiter.Quota("spend-a", 1, limiter.EveryDay).In("Europe/Berlin").Shadow(),
		limiter.PerDay("spend-b", 500_000).WithBurst(1_250_000),
		limiter.PerDay("spend-c", 9_223_372_036_854_775),
		limiter.Custom("spend-d", 12_500_000, 12_500_000, 90*time.Second).Shadow(),
	}
	m := &manifest.Manifest{
		Namespace: "default", Levels: []limiter.Config{{Limits: append(money, limiter.PerMinute("tpm", 5))}},
	}
	text, err := m.YAML()
	check(t, err)
	const want = `namespace: default
system:
  limits:
    spend: $50@month
    spend-a: $0.000001@day:Europe/Berlin:shadow
    spend-b: $0.5/day:$1.25
    spend-c: $9223372036.854775/day
    spend-d: $12.5/90sec:shadow
    tpm:
      capacity: 5
      refill_amount: 5
      refill_period: 60
`
	equal(t, "YAML", string(text), want)
	equal(t, "read back", parse(t, string(text)), m)
	check(t, compiledSchema(t).Validate(decodeAsEditor(t, text)))

	text, err = m.JSON()
	check(t, err)
	equal(t, "read back from JSON", parse(t, string(text)), m)
	if strings.Contains(string(text), "$") {
		t.Errorf("JSON %s", text)
	}
}
