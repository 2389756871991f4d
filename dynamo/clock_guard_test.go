package dynamo_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// datedTable is a quiet table whose replies have dates.
type datedTable struct {
	dynamotest.QuietTable
	date  func() time.Time
	age   string // the header of a cache
	fault func(op string) *http.Response

	mu       sync.Mutex
	refilled time.Time   // the latest refill time of a locked write
	writes   []time.Time // the refill times of all
}

var setsRefill = regexp.MustCompile(`"N":"(\d{13})"`)

// Do answers a request. It finds the refill time in a write, which is later than
// the stored one.
func (d *datedTable) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	d.observe(body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	var reply *http.Response
	if d.fault != nil {
		_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		reply = d.fault(op)
	}
	if reply == nil {
		if reply, err = d.QuietTable.Do(req); err != nil {
			return nil, err
		}
	}
	reply.Header.Set("Date", d.date().UTC().Format(http.TimeFormat))
	if d.age != "" {
		reply.Header.Set("Age", d.age)
	}
	return reply, nil
}

// observe records the refill time that a request writes.
func (d *datedTable) observe(body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var latest time.Time
	for _, found := range setsRefill.FindAllSubmatch(body, -1) {
		if ms, _ := strconv.ParseInt(string(found[1]), 10, 64); time.UnixMilli(ms).After(latest) {
			latest = time.UnixMilli(ms)
		}
	}
	if latest.After(start) {
		d.writes = append(d.writes, latest)
	}
	if latest.After(d.refilled) {
		d.refilled = latest
	}
}

// offBy returns the date of a table whose time differs from the machine's.
func offBy(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// connect connects to the table, in a bubble whose time is past the refill time of
// the table's buckets.
func (d *datedTable) connect(t *testing.T, opts dynamo.Options) *dynamo.Repository {
	t.Helper()
	time.Sleep(time.Until(start.Add(24 * time.Hour)))
	opts.AWS = &aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: d,
	}
	repo, err := dynamo.Connect(t.Context(), "quiet", &opts)
	must(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

// charged makes a charge of a full bucket at a time, and returns the time that it
// writes.
func (d *datedTable) charged(t *testing.T, repo *dynamo.Repository, now time.Time) time.Time {
	t.Helper()
	d.mu.Lock()
	d.refilled = time.Time{}
	d.mu.Unlock()
	repo.Forget() // the reply to a write has an old refill time
	out, err := repo.Consume(t.Context(), now, quietCharge("bob"))
	must(t, err)
	if !out.Admitted {
		t.Fatal("the charge is refused")
	}
	return d.refilled
}

func TestChargesUseTheTablesTime(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{
		-10 * time.Minute, -5 * time.Minute, -4 * time.Second, 4 * time.Second, 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &datedTable{date: offBy(off)}
			repo := d.connect(t, dynamo.Options{})
			for range 20 {
				got, want := d.charged(t, repo, time.Now()), time.Now().Add(off)
				if got.Sub(want).Abs() > 1200*time.Millisecond {
					t.Errorf("charged at %v, want %v", got, want)
				}
				time.Sleep(700 * time.Millisecond)
			}
			s := repo.Stats()
			if !s.ClockKnown || !s.ClockCorrected || (s.ClockOffset-off).Abs() > s.ClockMargin ||
				s.ClockMargin > time.Second {
				t.Errorf("offset %v within %v, known %v, corrected %v; want %v", s.ClockOffset, s.ClockMargin,
					s.ClockKnown, s.ClockCorrected, off)
			}
		})
	}
}

// A time that the caller does not take from the machine's clock is never
// corrected.
func TestTimesOfTheirOwnAreUntouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &datedTable{date: offBy(-5 * time.Minute)}
		repo := d.connect(t, dynamo.Options{})
		for range 5 {
			for _, by := range []time.Duration{
				-5 * time.Minute, -2100 * time.Millisecond, 2100 * time.Millisecond, time.Hour,
			} {
				if want := time.Now().Add(by).Truncate(time.Millisecond); !d.charged(t, repo, want).Equal(want) {
					t.Errorf("charged at %v, want %v", d.refilled, want)
				}
			}
			time.Sleep(700 * time.Millisecond)
		}
		if s := repo.Stats(); !s.ClockKnown || s.ClockCorrected {
			t.Errorf("known %v, corrected %v; want a known offset that changes nothing", s.ClockKnown, s.ClockCorrected)
		}
	})
}

func TestTheMachinesTimeIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		date  func() time.Time
		age   string
		opts  dynamo.Options
		known bool
		takes time.Duration // to connect
	}{
		"within the guard": {date: offBy(1500 * time.Millisecond), known: true},
		"within a larger guard": {
			date: offBy(-5 * time.Minute), opts: dynamo.Options{ClockGuard: time.Hour}, known: true,
		},
		"without a guard": {date: offBy(-5 * time.Minute), opts: dynamo.Options{ClockGuard: -1}, known: true},
		"a frozen date":   {date: func() time.Time { return start }, takes: 1100 * time.Millisecond},
		"a date that goes back": {date: func() time.Time {
			return start.Add(-time.Since(start))
		}, takes: 1100 * time.Millisecond},
		"a reply of a cache": {date: offBy(-5 * time.Minute), age: "300"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &datedTable{date: c.date, age: c.age}
				time.Sleep(time.Until(start.Add(24 * time.Hour)))
				began := time.Now()
				repo := d.connect(t, c.opts)
				if took := time.Since(began); took != c.takes {
					t.Errorf("it takes %v to connect, want %v", took, c.takes)
				}
				for range 20 {
					if now := time.Now().Truncate(time.Millisecond); !d.charged(t, repo, now).Equal(now) {
						t.Errorf("charged at %v, want %v", d.refilled, now)
					}
					time.Sleep(700 * time.Millisecond)
				}
				if s := repo.Stats(); s.ClockKnown != c.known || s.ClockCorrected || !c.known && (s.ClockOffset != 0 ||
					s.ClockMargin != 0) {
					t.Errorf("offset %v within %v, known %v, corrected %v", s.ClockOffset, s.ClockMargin,
						s.ClockKnown, s.ClockCorrected)
				}
			})
		})
	}
}

// A machine whose clock is set wrong asks the table once before its next charge.
func TestAClockThatIsSetWrongChargesAtTheRightTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &datedTable{date: time.Now}
		repo := d.connect(t, dynamo.Options{})
		time.Sleep(2 * time.Second)
		d.charged(t, repo, time.Now())
		d.Script(nil)
		repo.StepClock(6 * time.Hour)
		for range 3 {
			if got := d.charged(t, repo, time.Now().Add(6*time.Hour)); time.Until(got).Abs() > time.Second {
				t.Errorf("charged at %v, want %v", got, time.Now())
			}
		}
		if n := d.Count("GetItem"); n != 1 {
			t.Errorf("it asks %d times, want once", n)
		}
		repo.StepClock(-6 * time.Hour)
		if now := time.Now().Truncate(time.Millisecond); !d.charged(t, repo, now).Equal(now) {
			t.Errorf("charged at %v, want %v", d.refilled, now)
		}
	})
}

// A caller in a hurry does not wait for a second date.
func TestConnectDoesNotWaitPastADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &datedTable{date: offBy(-5 * time.Minute)}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		cfg := &aws.Config{
			Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient: d,
		}
		took, err := elapsed(func() error {
			repo, err := dynamo.Connect(ctx, "quiet", &dynamo.Options{AWS: cfg})
			if err == nil {
				err = repo.Close()
			}
			return err
		})
		if must(t, err); took != 0 {
			t.Errorf("it takes %v", took)
		}
	})
}

// AWS rejects a request that is signed at a wrong time, and the SDK learns the
// right one from the reply. The charge is sent again.
func TestAChargeSignedAtAWrongTimeIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		off      time.Duration
		rejected int
	}{{-10 * time.Minute, 1}, {0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			d := &datedTable{date: offBy(c.off)}
			repo := d.connect(t, dynamo.Options{})
			rejected := 0
			d.fault = func(op string) *http.Response {
				if op != "UpdateItem" || rejected == c.rejected {
					return nil
				}
				rejected++
				reply := `{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"Signature not yet current"}`
				return &http.Response{
					StatusCode: http.StatusBadRequest,
					Header:     http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
					Body:       io.NopCloser(strings.NewReader(reply)),
				}
			}
			d.charged(t, repo, time.Now())
			if rejected != c.rejected {
				t.Errorf("%d requests were rejected, want %d", rejected, c.rejected)
			}
		})
	}
}
