package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// demand is a number of processes that share one bucket of one limit, each with
// an escrow of its own.
type demand struct {
	processes int
	perMinute int64                        // the limit
	perSecond int                          // calls of all processes
	level     int64                        // tokens in the bucket at the start
	span      time.Duration                // length of the demand
	targets   func(demand, *report, taken) // may be nil
}

// demands returns the demands to measure. If minute is a whole minute, the
// demand of 400 calls a second begins with a full bucket. If it is shorter, the
// demand begins with fewer tokens in proportion, so that it also ends with an
// empty bucket.
func demands(minute time.Duration) []demand {
	const large, shared, small = 120_000, 6_000, 1_200
	part := float64(minute) / float64(time.Minute)
	return []demand{
		{1, large, 1000, large, minute / 4, demand.steady},
		{8, shared, 400, int64(part * shared), minute, demand.exhaust},
		{1, small, 20 * small / 60, 0, minute / 4, demand.flood},
		{8, small, 20 * small / 60, 0, minute / 4, demand.flood},
		// Here a hold ends before the next call begins.
		{1, shared, 1, shared, minute / 4, nil},
	}
}

// allowed returns what the limit allows in the span: the tokens at the start and
// the refill.
func (d demand) allowed() float64 {
	return float64(d.level) + float64(d.perMinute)*d.span.Minutes()
}

// slack returns what may be admitted beyond what the limit allows: 3 % of the
// capacity for the holds, and 2 % for the table.
func (d demand) slack() float64 {
	const holds, table = 0.03, 0.02
	return (holds + table) * float64(d.perMinute)
}

func (d demand) String() string {
	unit := "processes"
	if d.processes == 1 {
		unit = "process"
	}
	return fmt.Sprintf("%d %s, %d/s of %d a minute", d.processes, unit, d.perSecond, d.perMinute)
}

// steady expects few requests where the limit allows everything.
func (d demand) steady(r *report, got taken) {
	r.atMost(0.05, series{got.perAdmission()}, "escrow: requests per admission, %v", d)
}

// exhaust expects that almost everything is admitted that the limit allows, and
// no more than that and the slack.
func (d demand) exhaust(r *report, got taken) {
	r.atLeast(0.97, series{float64(got.Admitted) / d.allowed()}, "escrow: admitted / allowed by the limit, %v", d)
	r.atMost(1, series{float64(got.Admitted) / (d.allowed() + d.slack())},
		"escrow: admitted / allowed by the limit with its slack, %v", d)
}

// flood expects that refusals need few requests.
func (d demand) flood(r *report, got taken) {
	most := 0.13
	if d.processes > 1 {
		most = 0.45
	}
	r.atMost(most, series{got.perRefusal()}, "escrow: requests per refused call, %v", d)
}

func (t taken) perAdmission() float64 { return float64(t.Requests) / float64(t.Admitted) }
func (t taken) perRefusal() float64   { return float64(t.Requests) / float64(t.Refused) }

// escrowDemands puts each demand on a bucket of its own.
func escrowDemands(ctx context.Context, cfg config, r *report, endpoint string) error {
	var rows [][]string
	for i, d := range demands(cfg.minute) {
		got, err := d.run(ctx, endpoint, fmt.Sprintf("demand-%d", i))
		if err != nil {
			return fmt.Errorf("%v: %w", d, err)
		}

		if d.targets != nil {
			d.targets(d, r, got)
		}
		rows = append(rows, d.row(got))
	}

	r.line("\n  DynamoDB Local, demands at a steady pace on one bucket")
	return r.table([]string{
		"processes", "limit a minute", "calls/s", "for", "calls", "admitted", "of allowed", "refused", "requests",
		"per admission", "per refusal",
	}, rows)
}

func (d demand) row(got taken) []string {
	perRefusal := "-"
	if got.Refused > 0 {
		perRefusal = fmt.Sprintf("%.3f", got.perRefusal())
	}

	return []string{
		strconv.Itoa(d.processes), count(float64(d.perMinute)), strconv.Itoa(d.perSecond), d.span.String(),
		strconv.Itoa(got.Asked), strconv.Itoa(got.Admitted),
		fmt.Sprintf("%.1f%%", 100*float64(got.Admitted)/d.allowed()), strconv.Itoa(got.Refused),
		strconv.FormatInt(got.Requests, 10),
		fmt.Sprintf("%.3f", got.perAdmission()), perRefusal,
	}
}

// run starts the processes, lets them begin together, and returns the sum of
// what they took.
func (d demand) run(ctx context.Context, endpoint, name string) (sum taken, err error) {
	var takers []*child
	defer func() {
		for _, c := range takers {
			err = errors.Join(err, c.close())
		}
	}()

	if err := d.store(ctx, endpoint, name); err != nil {
		return sum, err
	}

	for i := range d.processes {
		c, err := d.start(ctx, endpoint, name, i)
		if err != nil {
			return sum, err
		}
		takers = append(takers, c)
	}

	// The bucket is emptied after the start of the processes, since it refills
	// meanwhile.
	if err := d.take(ctx, endpoint, name, d.perMinute-d.level); err != nil {
		return sum, err
	}

	for _, c := range takers {
		if _, err := fmt.Fprintln(c.in, "go"); err != nil {
			return sum, err
		}
	}

	for _, c := range takers {
		line, err := c.line()
		if err != nil {
			return sum, err
		}

		var got taken
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			return sum, err
		}
		sum.add(got)
	}

	return sum, nil
}

func (t *taken) add(other taken) {
	t.Asked += other.Asked
	t.Admitted += other.Admitted
	t.Refused += other.Refused
	t.Requests += other.Requests
}

// start starts one of the processes and waits until it is ready. Their calls
// alternate.
func (d demand) start(ctx context.Context, endpoint, name string, i int) (*child, error) {
	// The processes take turns: with 8 processes and 400 calls a second, each
	// calls every 20 ms, and one of them every 2.5 ms.
	between := time.Second / time.Duration(d.perSecond)
	task, err := json.Marshal(takerTask{
		Endpoint: endpoint, Entity: name, Resource: name, Span: d.span,
		First: time.Duration(i) * between, Period: time.Duration(d.processes) * between,
	})
	if err != nil {
		return nil, err
	}

	c, err := start(ctx, nil, thisProgram, takerCommand, string(task))
	if err != nil {
		return nil, err
	}

	_, err = c.line()
	return c, err
}

// store stores the limit.
func (d demand) store(ctx context.Context, endpoint, name string) error {
	return d.with(ctx, endpoint, func(lim *limiter.RateLimiter) error {
		return lim.SetResourceDefaults(ctx, name, limiter.PerMinute("rpm", d.perMinute))
	})
}

// take takes n tokens from the bucket.
func (d demand) take(ctx context.Context, endpoint, name string, n int64) error {
	// A demand that begins with a full bucket takes nothing from it.
	if n == 0 {
		return nil
	}

	return d.with(ctx, endpoint, func(lim *limiter.RateLimiter) error {
		lease, err := lim.Acquire(ctx, limiter.Request{Entity: name, Resource: name, Consume: limiter.Tokens("rpm", n)})
		if err != nil {
			return err
		}
		return lease.Commit(ctx)
	})
}

func (d demand) with(ctx context.Context, endpoint string, do func(*limiter.RateLimiter) error) error {
	cfg := awsConfig()
	repo, err := dynamo.Connect(ctx, benchTable, &dynamo.Options{Endpoint: endpoint, AWS: &cfg, Timeout: patience})
	if err != nil {
		return err
	}

	lim, err := limiter.New(repo, nil)
	if err == nil {
		err = do(lim)
	}
	return errors.Join(err, repo.Close())
}

// takerCommand is the first argument of a process that takes from a bucket at a
// steady pace, through an escrow of its own. The second is a takerTask as JSON.
const takerCommand = "-escrow-taker"

// takerTask says what a process does. Times are in nanoseconds.
type takerTask struct {
	Endpoint, Entity, Resource string
	First                      time.Duration // time of the first call after the start
	Period                     time.Duration // between two calls
	Span                       time.Duration // after which no call begins
}

// taken is the outcome of a taker, or the sum of several.
type taken struct {
	Asked, Admitted, Refused int
	Requests                 int64 // to the table, returns included
}

// serveTaker connects, prints a line, waits for a line, makes the calls and
// prints a taken as JSON. The end of in before that stops it.
func serveTaker(ctx context.Context, task string, in io.Reader, out io.Writer) (err error) {
	var t takerTask
	if err := json.Unmarshal([]byte(task), &t); err != nil {
		return err
	}

	cfg := awsConfig()
	table, err := dynamo.Connect(ctx, benchTable, &dynamo.Options{Endpoint: t.Endpoint, AWS: &cfg, Timeout: patience})
	if err != nil {
		return err
	}

	held := escrow.New(table, nil)                          //nolint:contextcheck // it works until Close
	defer func() { err = errors.Join(err, held.Close()) }() //nolint:contextcheck // Close takes none
	lim, err := limiter.New(held, nil)
	if err != nil {
		return err
	}

	// No process calls before all of them are ready.
	fmt.Fprintln(out, "ready")
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return fmt.Errorf("no line to start: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, lines); cancel() }()

	// Requests up to here belong to the connection and not to the calls.
	before := table.Stats().Requests
	got, err := t.run(ctx, lim)
	if err != nil {
		return err
	}

	got.Requests = table.Stats().Requests - before
	return json.NewEncoder(out).Encode(got)
}

// run makes the calls, each at its time however long earlier ones take.
func (t *takerTask) run(ctx context.Context, lim *limiter.RateLimiter) (got taken, err error) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	var errs []error
	request := limiter.Request{Entity: t.Entity, Resource: t.Resource, Consume: limiter.Tokens("rpm", 1)}

	begin := time.Now()
	for at := t.First; at < t.Span; at += t.Period {
		select {
		case <-time.After(at - time.Since(begin)):
		case <-ctx.Done():
			return got, ctx.Err()
		}

		got.Asked++
		calls.Go(func() {
			admitted, err := tryTake(ctx, lim, request)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case admitted:
				got.Admitted++
			default:
				got.Refused++
			}
		})
	}

	calls.Wait()
	return got, errors.Join(errs...)
}

// tryTake acquires and commits, and reports whether that was admitted.
func tryTake(ctx context.Context, lim *limiter.RateLimiter, request limiter.Request) (bool, error) {
	lease, err := lim.Acquire(ctx, request)
	// A refusal is one of the outcomes to count and no failure.
	if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, lease.Commit(ctx)
}
