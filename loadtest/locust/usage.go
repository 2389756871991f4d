package locust

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// usage measures this process for heartbeats.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func newUsage() *usage { return &usage{time.Now(), loadtest.CPUTime()} }

// read returns the share of the cores that the process used since the last call,
// in percent, and its memory in bytes. Locust's own workers have one core, and
// the master warns above 90 %, so all cores together count as 100 %.
func (u *usage) read() (percent float64, memory uint64) {
	now, cpu := time.Now(), loadtest.CPUTime()
	if elapsed := now.Sub(u.at) * time.Duration(runtime.GOMAXPROCS(0)); elapsed > 0 {
		percent = math.Round(1000*float64(cpu-u.cpu)/float64(elapsed)) / 10
	}
	u.at, u.cpu = now, cpu
	return percent, residentMemory()
}

// residentMemory returns what the Go runtime holds and has not given back.
func residentMemory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
