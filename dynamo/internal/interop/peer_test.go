package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// The engine keeps separate data for each access key and region, so these
// equal the ones of dynamotest.Config.
const (
	peerRegion    = "us-east-1"
	peerAccessKey = "test"
)

const (
	peerCallLimit = 2 * time.Minute  // longer than the Python client tries a dead endpoint
	peerExitLimit = 10 * time.Second // from the end of stdin
)

// peer is a process that runs operations of the Python library; testdata/peer.py
// lists them. It handles one call at a time and is safe for concurrent use.
type peer struct {
	stop context.CancelFunc

	mu      sync.Mutex
	in      io.WriteCloser
	out     *bufio.Reader
	handles int
}

// startPython starts a peer on the engine of the tests and stops it at the end
// of the test. It skips the test unless ZAEL_TEST_PYTHON names an interpreter
// that has the library.
func startPython(t *testing.T) *peer {
	t.Helper()
	interpreter := os.Getenv("ZAEL_TEST_PYTHON")
	if interpreter == "" {
		t.Skip("ZAEL_TEST_PYTHON is not set; `make interop` sets it and runs this test")
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, interpreter, "testdata/peer.py", "--endpoint-url", dynamotest.Endpoint(t),
		"--region", peerRegion)
	cmd.Env = peerEnv()
	cmd.Stderr = t.Output()
	cmd.WaitDelay = peerExitLimit
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		stop()
		t.Fatalf("start the Python peer: %v", err)
	}
	p := &peer{stop: stop, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() { p.close(t, cmd) })
	return p
}

// peerEnv returns the environment without a developer's settings, credentials
// and proxies.
func peerEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(variable), "=")
		return strings.HasPrefix(name, "AWS_") || strings.HasSuffix(name, "_PROXY") || name == "ZAEL_STACK" ||
			name == "ZAEL_NAMESPACE"
	})
	return append(env, "AWS_ACCESS_KEY_ID="+peerAccessKey, "AWS_SECRET_ACCESS_KEY=test",
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "PYTHONDONTWRITEBYTECODE=1")
}

func (p *peer) close(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	defer p.stop()
	_ = p.in.Close() // Wait reports a peer that is gone already
	defer time.AfterFunc(peerExitLimit, p.stop).Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the Python peer did not end by itself: %v", err)
	}
}

// call runs an operation and decodes its return value into result, which may be
// nil. An exception is a *peerError; any other error means that the peer is
// gone. A peer that does not answer in time is killed.
func (p *peer) call(op string, args map[string]any, result any) error {
	request, err := json.Marshal(map[string]any{"op": op, "args": args})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer time.AfterFunc(peerCallLimit, p.stop).Stop()
	if _, err := p.in.Write(append(request, '\n')); err != nil {
		return fmt.Errorf("python %s: %w", op, err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("python %s: no answer (within %v): %w", op, peerCallLimit, err)
	}
	return readReply(line, result)
}

func readReply(line []byte, result any) error {
	var reply struct {
		OK    json.RawMessage `json:"ok"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return fmt.Errorf("python answered %q: %w", line, err)
	}
	if reply.Error != nil {
		failure := &peerError{Raw: reply.Error}
		if err := json.Unmarshal(reply.Error, failure); err != nil {
			return fmt.Errorf("python answered %q: %w", line, err)
		}
		return failure
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.OK, result)
}

// must runs an operation that has to succeed.
func (p *peer) must(t *testing.T, op string, args map[string]any, result any) {
	t.Helper()
	if err := p.call(op, args, result); err != nil {
		t.Fatal(err)
	}
}

// peerError is an exception in Python with the fields that tests need; Raw has
// all of them.
type peerError struct {
	Type       string       `json:"type"` // name of its class
	Message    string       `json:"message"`
	Statuses   []peerStatus `json:"statuses"`            // RateLimitExceeded
	RetryAfter float64      `json:"retry_after_seconds"` // RateLimitExceeded
	Field      string       `json:"field"`               // ValidationError and its kinds
	Reason     string       `json:"reason"`              // ValidationError and its kinds
	Cause      *peerError   `json:"cause"`               // RateLimiterUnavailable
	Code       string       `json:"code"`                // ClientError: what AWS calls it
	Reasons    []string     `json:"reasons"`             // ClientError: codes of a cancelled transaction

	Raw json.RawMessage `json:"-"`
}

func (e *peerError) Error() string { return "python " + e.Type + ": " + e.Message }

type peerStatus struct {
	Entity     string        `json:"entity_id"`
	Resource   string        `json:"resource"`
	Limit      limiter.Limit `json:"limit"`
	Available  int64         `json:"available"`
	Requested  int64         `json:"requested"`
	Exceeded   bool          `json:"exceeded"`
	RetryAfter float64       `json:"retry_after_seconds"`
}

// createTable creates the table of a stack.
func (p *peer) createTable(t *testing.T, stack string) {
	t.Helper()
	p.must(t, "create_table", map[string]any{"stack": stack}, nil)
}

// freeze stops the clock of the Python library, which its caches use too. The
// peer has a single clock.
func (p *peer) freeze(t *testing.T, at time.Time) {
	t.Helper()
	p.must(t, "clock", map[string]any{"frozen_ms": at.UnixMilli()}, nil)
}

// shift lets the clock run with an offset from the real one.
func (p *peer) shift(t *testing.T, by time.Duration) {
	t.Helper()
	p.must(t, "clock", map[string]any{"offset_ms": by.Milliseconds()}, nil)
}

// open opens a namespace and registers it if needed. The settings are
// auto_update, config_cache_ttl, endpoint_url, speculative_writes and
// bucket_ttl_multiplier.
func (p *peer) open(stack, namespace string, settings map[string]any) (*peerRepo, error) {
	p.mu.Lock()
	p.handles++
	r := &peerRepo{peer: p, handle: strconv.Itoa(p.handles)}
	p.mu.Unlock()
	args := map[string]any{"handle": r.handle, "stack": stack, "namespace": namespace}
	maps.Copy(args, settings)
	return r, p.call("open", args, r)
}

func (p *peer) mustOpen(t *testing.T, stack, namespace string, settings map[string]any) *peerRepo {
	t.Helper()
	r, err := p.open(stack, namespace, settings)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// peerRepo is a namespace that a peer has open. Its calls carry the handle.
type peerRepo struct {
	*peer
	handle string

	NamespaceID string `json:"namespace_id"`
}

func (r *peerRepo) call(op string, args map[string]any, result any) error {
	args = maps.Clone(args)
	if args == nil {
		args = map[string]any{}
	}
	args["handle"] = r.handle
	return r.peer.call(op, args, result)
}

func (r *peerRepo) must(t *testing.T, op string, args map[string]any, result any) {
	t.Helper()
	if err := r.call(op, args, result); err != nil {
		t.Fatal(err)
	}
}

func (r *peerRepo) setLimits(t *testing.T, entity, resource string, limits ...limiter.Limit) {
	t.Helper()
	r.must(t, "set_limits", map[string]any{"entity_id": entity, "resource": resource, "limits": limits}, nil)
}

func (r *peerRepo) setResourceDefaults(t *testing.T, resource string, limits ...limiter.Limit) {
	t.Helper()
	r.must(t, "set_resource_defaults", map[string]any{"resource": resource, "limits": limits}, nil)
}

// setSystemDefaults stores limits and "allow", "block" or, for unset, "".
func (r *peerRepo) setSystemDefaults(t *testing.T, onUnavailable string, limits ...limiter.Limit) {
	t.Helper()
	args := map[string]any{"limits": limits}
	if onUnavailable != "" {
		args["on_unavailable"] = onUnavailable
	}
	r.must(t, "set_system_defaults", args, nil)
}

func (r *peerRepo) createEntity(t *testing.T, e limiter.Entity) {
	t.Helper()
	args := map[string]any{"entity_id": e.ID, "cascade": e.Cascade}
	if e.Name != "" {
		args["name"] = e.Name
	}
	if e.Parent != "" {
		args["parent_id"] = e.Parent
	}
	if e.Metadata != nil {
		args["metadata"] = e.Metadata
	}
	r.must(t, "create_entity", args, nil)
}

// peerLease is a lease in Python as it was when the call returned. It has no
// entries if it was allowed in an outage.
type peerLease struct {
	ID       int              `json:"lease"`    // set by begin
	Consumed map[string]int64 `json:"consumed"` // child and parent added up
	Entries  []struct {
		Entity   string `json:"entity_id"`
		Limit    string `json:"limit_name"`
		Consumed int64  `json:"consumed"`
	} `json:"entries"`
}

// peerEnd describes what happens in a lease before it ends; zero is a plain
// commit.
type peerEnd struct {
	More, Adjust, Release limiter.Amounts
	Rollback              bool // by an exception
}

func (e peerEnd) addTo(args map[string]any) map[string]any {
	for name, amounts := range map[string]limiter.Amounts{
		"consume_more": e.More, "adjust": e.Adjust, "release": e.Release,
	} {
		if amounts.Len() > 0 {
			args[name] = amounts
		}
	}
	args["rollback"] = e.Rollback
	return args
}

func acquireArgs(entity, resource string, consume limiter.Amounts) map[string]any {
	return map[string]any{"entity_id": entity, "resource": resource, "consume": consume}
}

// acquire takes a lease and ends it.
func (r *peerRepo) acquire(entity, resource string, consume limiter.Amounts, end peerEnd) (lease peerLease, err error) {
	err = r.call("acquire", end.addTo(acquireArgs(entity, resource, consume)), &lease)
	return lease, err
}

// begin takes a lease and leaves it open for end.
func (r *peerRepo) begin(entity, resource string, consume limiter.Amounts) (lease peerLease, err error) {
	err = r.call("acquire_begin", acquireArgs(entity, resource, consume), &lease)
	return lease, err
}

func (r *peerRepo) end(lease peerLease, end peerEnd) error {
	return r.peer.call("acquire_end", end.addTo(map[string]any{"lease": lease.ID}), nil)
}

func (r *peerRepo) available(t *testing.T, entity, resource string) (tokens map[string]int64) {
	t.Helper()
	r.must(t, "available", map[string]any{"entity_id": entity, "resource": resource}, &tokens)
	return tokens
}

// peerBucket is one limit of a stored bucket, in thousandths of a token.
type peerBucket struct {
	Limit    string `json:"limit_name"`
	Tokens   int64  `json:"tokens_milli"`
	Refilled int64  `json:"last_refill_ms"`
	Capacity int64  `json:"capacity_milli"`
	Amount   int64  `json:"refill_amount_milli"`
	Period   int64  `json:"refill_period_ms"`
	Consumed *int64 `json:"total_consumed_milli"` // nil if the item has no counter
}

// buckets returns the bucket of an entity and resource by limit, empty if none.
func (r *peerRepo) buckets(t *testing.T, entity, resource string) map[string]peerBucket {
	t.Helper()
	var list []peerBucket
	r.must(t, "get_buckets", map[string]any{"entity_id": entity, "resource": resource}, &list)
	byLimit := map[string]peerBucket{}
	for _, b := range list {
		byLimit[b.Limit] = b
	}
	return byLimit
}

// peerTally counts outcomes; errors other than a rejection by their text.
type peerTally struct {
	Admitted int64            `json:"admitted"`
	Rejected int64            `json:"rejected"`
	Errors   map[string]int64 `json:"errors"`
}

// hammer makes attempts from several concurrent tasks.
func (r *peerRepo) hammer(
	entity, resource string, consume limiter.Amounts, attempts, tasks int,
) (tally peerTally, err error) {
	args := acquireArgs(entity, resource, consume)
	args["attempts"], args["tasks"] = attempts, tasks
	err = r.call("hammer", args, &tally)
	return tally, err
}

// peerSpeed is a measurement; CPU is the time of the Python process.
type peerSpeed struct {
	peerTally
	Calls int64   `json:"calls"`
	Wall  float64 `json:"wall_seconds"`
	CPU   float64 `json:"cpu_seconds"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// bench measures calls after a tenth as many for warming up.
func (r *peerRepo) bench(
	entity, resource string, consume limiter.Amounts, calls, concurrency int,
) (speed peerSpeed, err error) {
	args := acquireArgs(entity, resource, consume)
	args["calls"], args["concurrency"], args["warmup"] = calls, concurrency, calls/10
	err = r.call("bench", args, &speed)
	return speed, err
}
