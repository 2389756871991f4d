package loadtest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestConditions(t *testing.T) {
	r := sampleReport(t, 60).Result // p99 43 ms, 7 failures of 12,345 calls, 900 of 9,000 acquires refused
	for text, want := range map[string]struct {
		holds bool
		value string
	}{
		"p99>43ms":         {false, "43ms"},
		"p99>=43ms":        {true, "43ms"},
		"p99<43ms":         {false, "43ms"},
		"p99 <= 43ms":      {true, "43ms"},
		"p99>0.042s":       {true, "43ms"},
		"p50>5ms":          {true, "6ms"},
		"p95>20ms":         {false, "18ms"},
		"avg>8ms":          {false, "8ms"},
		"min<1ms":          {true, "900µs"},
		"max>1s":           {true, "1.25s"},
		"failures>0":       {true, "7"},
		"failures>=8":      {false, "7"},
		"failures>0.05%":   {true, "0.0567%"},
		"failures>0.1%":    {false, "0.0567%"},
		"refused>9%":       {true, "10%"},
		"refused>10%":      {false, "10%"},
		"refused>899":      {true, "900"},
		"rps<2057.5":       {false, "2057.5"},
		" rps < 3000 ":     {true, "2057.5"},
		"failures>100.5%":  {false, "0.0567%"},
		"failures>0.0001%": {true, "0.0567%"},
	} {
		all, err := loadtest.ParseConditions(text)
		check(t, err)
		if got := all[0].Holds(r); len(all) != 1 || got != want.holds || all[0].Describe(r) != want.value {
			t.Errorf("%s: %v with %s, want %v with %s", text, got, all[0].Describe(r), want.holds, want.value)
		}
	}
	all, err := loadtest.ParseConditions("p99>50ms, failures>0.1%,rps<1")
	check(t, err)
	if len(all) != 3 || all[0].String() != "p99>50ms" || all[1].String() != "failures>0.1%" ||
		all[2].String() != "rps<1" {
		t.Errorf("conditions are %v", all)
	}
	if all[1].Holds(loadtest.Result{}) {
		t.Error("a share of no calls is above 0")
	}
}

func TestWrongConditions(t *testing.T) {
	for text, want := range map[string]string{
		"":             `the condition "" is not METRIC`,
		"p99>50ms,":    `the condition "" is not METRIC`,
		"p99":          `the condition "p99" is not METRIC, one of > >= < <=, and a bound, such as p99>50ms`,
		"p99=50ms":     `the condition "p99=50ms" is not METRIC`,
		"p99>":         `is not METRIC`,
		"p99>50":       `the bound "50" of p99 is not a duration such as 50ms`,
		"p99>-1ms":     `the bound "-1ms" of p99 is not a duration`,
		"p42>50ms":     `there is no metric "p42"; the metrics are p50, p95, p99, avg, min, max, failures, refused, rps`,
		"rps<5%":       `the bound "5%" of rps is not a number such as 500`,
		"failures>x%":  `the bound "x%" of failures is not a number such as 10, or a percentage such as 0.1%`,
		"failures>NaN": `the bound "NaN"`,
		"failures>Inf": `the bound "Inf"`,
		"refused>-1":   `the bound "-1"`,
	} {
		if _, err := loadtest.ParseConditions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %s", text, err, want)
		}
	}
}
