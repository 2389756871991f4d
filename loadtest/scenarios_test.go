package loadtest_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestFindScenario(t *testing.T) {
	for _, name := range []string{"max_rps", "max_rps.py", "locustfiles/max_rps.py", `locustfiles\max_rps.py`} {
		if s, err := loadtest.Find(name, ""); err != nil || s.Name != "max_rps" {
			t.Errorf("Find(%q) returned %q, %v", name, s.Name, err)
		}
	}
	mine := loadtest.Scenario{Name: "simple", Description: "mine"}
	if s, err := loadtest.Find("simple", "", mine); err != nil || s.Description != "mine" {
		t.Errorf("Find returned %q, %v; want the scenario of the program", s.Description, err)
	}
	for wanted, text := range map[string]string{
		"max_rsp": `invalid scenario "max_rsp": no such scenario; did you mean max_rps? There are llm_gateway, llm_production, max_rps, simple, stress, and the files NAME.yaml in .`,
		"chaos":   `invalid scenario "chaos": no such scenario; choose from llm_gateway, llm_production, max_rps, simple, stress, and the files NAME.yaml in .`,
	} {
		_, err := loadtest.Find(wanted, "")
		if diff := cmp.Diff(text, err.Error()); diff != "" {
			t.Error(diff)
		}
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			t.Errorf("%T, want an *InvalidError", err)
		}
	}
}

func TestClassesAndShapes(t *testing.T) {
	want := map[string]string{
		"llm_gateway":    "LLMGatewayUser",
		"llm_production": "LLMGatewayUser LLMGatewayUserReal, ProductionDailyLoad 24h0m0s MorningSpike 1h0m0s",
		"max_rps":        "MaxRpsUser MaxRpsCascadeUser",
		"simple":         "SimpleUser SimpleCascadeUser",
		"stress":         "LoadTestUser",
	}
	for _, s := range loadtest.Scenarios() {
		check(t, s.Validate())
		var classes, shapes []string
		for _, c := range s.Classes {
			classes = append(classes, c.Name)
		}
		for _, shape := range s.Shapes {
			shapes = append(shapes, shape.Name, shape.Length().String())
		}
		got := strings.TrimSuffix(strings.Join(classes, " ")+", "+strings.Join(shapes, " "), ", ")
		if got != want[s.Name] {
			t.Errorf("%s has %q, want %q", s.Name, got, want[s.Name])
		}
	}
}

// runVirtual runs a scenario on memory in virtual time.
func runVirtual(t *testing.T, name string, o loadtest.Options) loadtest.Result {
	t.Helper()
	var result loadtest.Result
	synctest.Test(t, func(t *testing.T) {
		repo := openMemory(t)
		var err error
		o.Seed = 7
		result, err = loadtest.Run(t.Context(), repo, find(t, name), &o)
		check(t, err)
		if left := namespaces(t, repo); left != 1 {
			t.Errorf("%d namespaces left, want only the default", left)
		}
	})
	return result
}

// requests sums the requests of rows by a part of their key.
func requests(r loadtest.Result, key func(loadtest.Row) string) map[string]int64 {
	sums := map[string]int64{}
	for _, row := range r.Rows {
		sums[key(row)] += row.Requests
	}
	return sums
}

func byType(r loadtest.Row) string { return r.Type }

// traffic returns the last part of the name of a row of stress.
func traffic(r loadtest.Row) string { return path.Base(r.Name) }

func TestGatewayCorrectsEstimates(t *testing.T) {
	r := runVirtual(t, "llm_gateway", loadtest.Options{Users: 10, SpawnRate: 100, Duration: time.Minute})
	types := requests(r, byType)
	if types["ACQUIRE"] < 300 || types["COMMIT"] < types["ACQUIRE"]-10 || types["COMMIT"] > types["ACQUIRE"] {
		t.Errorf("%v, want a correction of nearly every lease", types)
	}
	names := requests(r, func(r loadtest.Row) string { return r.Name })
	if len(names) != 8 || names["google/gemini-flash"] < r.Total.Requests/16 {
		t.Errorf("%v, want eight models of about equal weight", names)
	}
	if r.Promise.Broken > 0 || r.Promise.Checks == 0 || len(r.Failures) > 0 {
		t.Errorf("%+v, %v", r.Promise, r.Failures)
	}
}

// TestProductionTasksDiffer checks that the three tasks do different things, and
// that a run without a web page follows a shape.
func TestProductionTasksDiffer(t *testing.T) {
	r := runVirtual(t, "llm_production", loadtest.Options{
		Classes: []string{"LLMGatewayUserReal"}, Shape: "MorningSpike", Interval: time.Hour,
	})
	types := requests(r, byType)
	all := types["ACQUIRE"] + types["RATE_LIMITED"] + types["AVAILABLE"]
	for kind, want := range map[string]float64{"AVAILABLE": 1.0 / 18, "COMMIT": 15.0 / 18} {
		if got := float64(types[kind]) / float64(all); got < want*0.85 || got > want*1.15 {
			t.Errorf("%s is %.3f of all tasks, want about %.3f (%v)", kind, got, want, types)
		}
	}
	users := func(at time.Duration) int { return r.Points[int(at/time.Second)].Users }
	if n := users(5 * time.Second); n < 11 || n > 13 {
		t.Errorf("%d users after 6 s, want 2 a second", n)
	}
	if got := []int{
		users(590 * time.Second), users(700 * time.Second), users(3500 * time.Second),
	}; !slices.Equal(got, []int{50, 150, 100}) {
		t.Errorf("users %v, want 50, then 150, then 100", got)
	}
	if r.Elapsed < time.Hour || r.Elapsed > time.Hour+time.Minute {
		t.Errorf("took %v, want the length of the shape", r.Elapsed)
	}
}

func TestStressTraffic(t *testing.T) {
	env := map[string]string{"SPIKE_PROBABILITY": "0", "NUM_APIS": "2", "NUM_CUSTOM_LIMITS": "5", "NUM_ENTITIES": "100"}
	r := runVirtual(t, "stress", loadtest.Options{
		Users: 20, SpawnRate: 100, Duration: time.Minute,
		Getenv: func(k string) string {
			return env[k]
		},
	})
	kinds := requests(r, traffic)
	for kind, want := range map[string]float64{"whale": 0.5, "spiker": 0.03, "powerlaw": 0.47} {
		if got := float64(kinds[kind]) / float64(r.Total.Requests); got < want*0.9 || got > want*1.1 {
			t.Errorf("%s has %.3f of the traffic, want about %.2f (%v)", kind, got, want, kinds)
		}
	}
	if apis := requests(r, func(r loadtest.Row) string { return path.Dir(r.Name) }); len(apis) != 2 {
		t.Errorf("%v, want two APIs", apis)
	}
	types := requests(r, byType)
	if types["RATE_LIMITED"] == 0 || r.Promise.Broken > 0 || len(r.Failures) > 0 {
		t.Errorf("%v, %+v, %v; want refusals of the whale, and no failures", types, r.Promise, r.Failures)
	}
	if share := float64(types["AVAILABLE"]) / float64(r.Total.Requests); share < 0.03 || share > 0.07 {
		t.Errorf("%.3f of all calls are queries, want 5/105", share)
	}
}

// TestStressSpikes checks the rates of users outside of a spike and inside.
func TestStressSpikes(t *testing.T) {
	for _, test := range []struct {
		probability string
		least, most int64
		traffic     string
	}{
		{"0", 360, 440, "whale"},   // BASELINE_RPM
		{"1", 900, 1500, "spiker"}, // mostly SPIKE_RPM, after about 60 picks
	} {
		env := map[string]string{
			"SPIKE_PROBABILITY": test.probability, "SPIKE_DURATION": "100", "BASELINE_RPM": "400",
			"SPIKE_RPM": "1500",
		}
		r := runVirtual(t, "stress", loadtest.Options{Users: 1, Duration: time.Minute, Getenv: func(k string) string {
			return env[k]
		}})
		if n := r.Total.Requests; n < test.least || n > test.most {
			t.Errorf("spikes of probability %s: %d tasks in a minute, want %d to %d", test.probability, n,
				test.least, test.most)
		}
		kinds := requests(r, traffic)
		for kind, n := range kinds {
			if n > kinds[test.traffic] {
				t.Errorf("%v, want %s first, not %s", kinds, test.traffic, kind)
			}
		}
	}
}

func TestStressSettingsAreChecked(t *testing.T) {
	for variable, test := range map[string][2]string{
		"NUM_APIS":     {"two", `invalid NUM_APIS "two": must be a whole number from 1 to 1000`},
		"NUM_ENTITIES": {"2.5", `invalid NUM_ENTITIES "2.5": must be a whole number from 3 to 100002`},
		"WHALE_SHARE":  {"-1", `invalid WHALE_SHARE "-1": must be a number from 0 to 1`},
		"SPIKE_SHARE":  {"0.6", `invalid SPIKE_SHARE "0.6": must be at most 0.5, which WHALE_SHARE leaves`},
		"NUM_CUSTOM_LIMITS": {
			"16001", `invalid NUM_CUSTOM_LIMITS "16001": must be at most the number of entities, 16000`,
		},
		"SPIKE_RPM": {"NaN", `invalid SPIKE_RPM "NaN": must be a number from 0 to 1000000`},
	} {
		repo := openMemory(t)
		_, err := loadtest.Run(t.Context(), repo, find(t, "stress"), &loadtest.Options{Getenv: func(k string) string {
			if k == variable {
				return test[0]
			}
			return ""
		}})
		if err == nil || err.Error() != "set up stress: "+test[1] {
			t.Errorf("%s: %v, want %q", variable, err, test[1])
		}
		if left := namespaces(t, repo); left != 1 {
			t.Errorf("%d namespaces left, want only the default", left)
		}
	}
}
