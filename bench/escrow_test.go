package main

import (
	"bytes"
	"context"
	"math"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestDemandVerdicts checks the arithmetic of the targets, at their bounds.
func TestDemandVerdicts(t *testing.T) {
	all := demands(time.Minute)
	steady, exhaust, one, eight := all[0], all[1], all[2], all[3]
	for _, c := range []struct {
		what   string
		demand demand
		got    taken
		want   []string
	}{
		{"few requests", steady, taken{Admitted: 1000, Requests: 50}, []string{"PASS"}},
		{"many requests", steady, taken{Admitted: 1000, Requests: 55}, []string{"MISS by 10.0%"}},
		{"97 %", exhaust, taken{Admitted: 11_640}, []string{"PASS", "PASS"}},
		{"too little", exhaust, taken{Admitted: 5_820}, []string{"MISS by 50.0%", "PASS"}},
		{"all of the slack", exhaust, taken{Admitted: 12_300}, []string{"PASS", "PASS"}},
		{"beyond the slack", exhaust, taken{Admitted: 13_530}, []string{"PASS", "MISS by 10.0%"}},
		{"one process", one, taken{Refused: 100, Requests: 13}, []string{"PASS"}},
		{"one process, many requests", one, taken{Refused: 100, Requests: 26}, []string{"MISS by 100.0%"}},
		{"eight processes", eight, taken{Refused: 100, Requests: 45}, []string{"PASS"}},
		{"eight processes, many requests", eight, taken{Refused: 100, Requests: 90}, []string{"MISS by 100.0%"}},
	} {
		r := &report{}
		c.demand.targets(c.demand, r, c.got)
		var verdicts []string
		for _, target := range r.targets {
			verdicts = append(verdicts, target.verdict())
		}
		if got, want := strings.Join(verdicts, ", "), strings.Join(c.want, ", "); got != want {
			t.Errorf("%s: %s, want %s", c.what, got, want)
		}
	}
}

// TestShorterDemandsAreInProportion checks that a quick run ends with an empty
// bucket, too.
func TestShorterDemandsAreInProportion(t *testing.T) {
	long, short := demands(time.Minute), demands(6*time.Second)
	for i := range long {
		if long[i].level == 0 || long[i].processes == 1 {
			continue
		}
		if got, want := short[i].allowed(), long[i].allowed()/10; math.Abs(got-want) > 1e-6 {
			t.Errorf("%v: 6 s allow %v, want %v", long[i], got, want)
		}
	}
	if allowed := long[1].allowed(); allowed != 12_000 {
		t.Errorf("a minute of 6,000 a minute allows %v", allowed)
	}
}

// TestProcessesMakeTheirCalls runs takers as processes on a stub, which admits
// everything.
func TestProcessesMakeTheirCalls(t *testing.T) {
	d := demand{processes: 2, perMinute: 6000, perSecond: 100, level: 6000, span: 100 * time.Millisecond}
	got, err := d.run(context.Background(), newStub(t, 0), "shared")
	if err != nil {
		t.Fatal(err)
	}
	if got.Asked != 10 || got.Admitted != 10 || got.Refused != 0 {
		t.Errorf("10 calls on a stub: %+v", got)
	}
	if got.Requests < 2 || got.Requests > 2*10 {
		t.Errorf("%d requests for 10 calls of 2 processes", got.Requests)
	}
}

func TestTakerNeedsALineToStart(t *testing.T) {
	var out bytes.Buffer
	task := `{"Endpoint": "` + newStub(t, 0) + `", "Entity": "e", "Resource": "r", "Period": 1000000, "Span": 1000000000000}`
	err := serveTaker(context.Background(), task, strings.NewReader(""), &out)
	if err == nil || out.String() != "ready\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

// TestTakerEndsWithItsInput checks that a taker of an hour stops when its parent
// is gone.
func TestTakerEndsWithItsInput(t *testing.T) {
	var out bytes.Buffer
	task := `{"Endpoint": "` + newStub(t, 0) + `", "Entity": "e", "Resource": "` + benchResource +
		`", "Period": 1000000000000, "Span": 3600000000000}`
	if err := serveTaker(context.Background(), task, strings.NewReader("go\n"), &out); err == nil {
		t.Errorf("no error, output %q", out.String())
	}
}

// TestSampleCountsItsOwnCalls checks that neither the requests nor the calls of
// the warm-up count.
func TestSampleCountsItsOwnCalls(t *testing.T) {
	var sent atomic.Int64
	p := hotProbe{
		id: caller{"probe", 3}, every: 2, warm: 1, held: func() int64 { return 42 },
		call:     func(context.Context, *picker) error { sent.Add(2); return nil },
		requests: sent.Load,
	}
	f, err := p.sample(context.Background(), newKeyset(1), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if f[requestsEach] != 2 || f[heldNow] != 42 || f[calls] < 3 || f[calls] >= float64(sent.Load())/2 ||
		f[p99] < f[p50] {
		t.Errorf("%v after %d requests", f, sent.Load())
	}
}

func TestZipfPrefersFewKeys(t *testing.T) {
	set := newZipfKeyset(mostKeys)
	counts := make([]int, mostKeys)
	for _, i := range set.order {
		counts[i]++
	}
	if counts[0] < orderLength/10 || counts[0] < 10*counts[20] || counts[mostKeys-1] == 0 {
		t.Errorf("requests by key: %v", counts)
	}
}

// TestRedisRate takes from a real Redis, and checks that it ends.
func TestRedisRate(t *testing.T) {
	program := fullConfig().redis
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
	redis, err := startRedis(context.Background(), program)
	if err != nil {
		t.Fatal(err)
	}
	keys := &newKeyset(3).pickers(1)[0]
	for range 10 {
		if err := redis.allow(context.Background(), keys); err != nil {
			t.Error(err)
		}
	}
	if err := redis.close(); err != nil {
		t.Errorf("Redis did not end by itself: %v", err)
	}
}

func TestOneLineWithoutRedis(t *testing.T) {
	cfg := smallConfig()
	for _, program := range []string{"", "no-such-program"} {
		var out bytes.Buffer
		cfg.redis = program
		if redis := redisOrNot(context.Background(), cfg, &report{out: &out}); redis != nil {
			t.Errorf("%q started", program)
		}
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "without redis_rate") {
			t.Errorf("%q: printed %q", program, out.String())
		}
	}
}
