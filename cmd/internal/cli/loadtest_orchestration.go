package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// Limits of load tests in an account.
const (
	maxLoadWorkers    = 1000
	maxUsersPerWorker = 100_000
	maxConnections    = 100_000
	maxLead           = 120 * time.Second
)

// orchestration holds the numbers in the environment of an orchestrator.
type orchestration struct {
	loadtest.OrchestrateOptions
	port, webPort int
	pool          int // 0 for the default
}

// readOrchestration reads the environment of an orchestrator.
func readOrchestration(getenv func(string) string) (o orchestration, err error) {
	n := &numbers{getenv: getenv}
	o.Interval, o.Lifetime, o.IdleTimeout = n.seconds("POLL_INTERVAL", 5, 1, 3600), n.seconds("LAMBDA_TIMEOUT", 300,
		60, 900), n.seconds("IDLE_TIMEOUT", 900, 1, 86_400)
	// A worker gets a deadline that is earlier by connectTime, and at least one
	// look at the master must fall into the rest.
	least := o.Interval.Seconds() + connectTime.Seconds()
	o.PendingTimeout = inSeconds(n.read("PENDING_TIMEOUT", 30,
		fmt.Sprintf("must be a number of seconds above POLL_INTERVAL + 5, here %v, and at most 900", least),
		func(f float64) bool { return f > least && f <= 900 }))

	o.Replacement = n.read("REPLACEMENT_PCT", 0.8, "must be a number above 0 and at most 1", func(f float64) bool {
		return f > 0 && f <= 1
	})

	o.UsersPerWorker = n.whole("USERS_PER_WORKER", 10, maxUsersPerWorker)
	o.MinWorkers, o.MaxWorkers = n.whole("MIN_WORKERS", 1, maxLoadWorkers), n.whole("MAX_WORKERS", 0, maxLoadWorkers)

	if o.Lead = n.seconds("STARTUP_LEAD_TIME", 20, 0, maxLead.Seconds()); o.Lead == 0 {
		// In OrchestrateOptions 0 is the default, so -1 stands for none.
		o.Lead = -1
	}

	o.port, o.webPort = n.whole("MASTER_PORT", 5557, math.MaxUint16), n.whole("LOCUST_WEB_PORT", 8089, math.MaxUint16)
	o.pool = n.whole("BOTO3_MAX_POOL", 0, maxConnections)
	// MAX_WORKERS is 0 if it is not set, which is no limit.
	if n.err == nil && o.MaxWorkers > 0 && o.MinWorkers > o.MaxWorkers {
		return o, kit.Usagef("MIN_WORKERS %d is more than MAX_WORKERS %d", o.MinWorkers, o.MaxWorkers)
	}

	return o, n.err
}

// numbers reads numbers from the environment. It keeps the first error.
type numbers struct {
	getenv func(string) string
	err    error
}

// read returns the value of a variable, or fallback if that is empty. The result
// must be valid; rule says when it is.
func (n *numbers) read(name string, fallback float64, rule string, valid func(float64) bool) float64 {
	text := strings.TrimSpace(n.getenv(name))
	if text == "" {
		text = strconv.FormatFloat(fallback, 'f', -1, 64)
	}

	f, err := strconv.ParseFloat(text, 64)
	if err == nil && valid(f) {
		return f
	}

	if n.err == nil {
		n.err = kit.Usagef("invalid %s %q: %s", name, kit.Clip(text), rule)
	}

	return fallback
}

// seconds returns a duration in a range of seconds.
func (n *numbers) seconds(name string, fallback, least, most float64) time.Duration {
	return inSeconds(n.read(name, fallback, fmt.Sprintf("must be a number of seconds from %v to %v", least, most),
		func(f float64) bool {
			return f >= least && f <= most
		}))
}

// whole returns a whole number from 1 to most. A variable that is empty may have
// the fallback 0.
func (n *numbers) whole(name string, fallback, most int) int {
	// The fallback may be 0, which read would reject.
	if strings.TrimSpace(n.getenv(name)) == "" {
		return fallback
	}

	return int(n.read(name, float64(fallback), fmt.Sprintf("must be a whole number from 1 to %d", most),
		func(f float64) bool { return f >= 1 && f <= float64(most) && f == math.Trunc(f) }))
}

func inSeconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
