package programs_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// unitMeter is a proxy in front of DynamoDB that adds up the read units of its
// answers.
type unitMeter struct {
	mu      sync.Mutex
	units   float64
	unknown []string // reads whose answers have no units
	since   time.Time
}

// reset begins to count.
func (m *unitMeter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units, m.unknown, m.since = 0, nil, time.Now()
}

// total returns the units since reset, and how many a budget allows: one second's
// worth at once, and the rate.
func (m *unitMeter) total(budget float64) (used, allowed float64, unknown []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units, budget * (1 + time.Since(m.since).Seconds()), m.unknown
}

// note counts the answer to a read.
func (m *unitMeter) note(res *http.Response) error {
	operation := res.Request.Header.Get("X-Amz-Target")
	if !strings.HasSuffix(operation, "GetItem") && !strings.HasSuffix(operation, "GetItems") &&
		!strings.HasSuffix(operation, ".Query") || res.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var answer struct{ ConsumedCapacity json.RawMessage }
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	type capacity struct{ CapacityUnits float64 }
	all := make([]capacity, 1)
	if json.Unmarshal(answer.ConsumedCapacity, &all) != nil { // a list for some operations
		err = json.Unmarshal(answer.ConsumedCapacity, &all[0])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.unknown = append(m.unknown, operation)
	}
	for _, c := range all {
		m.units += c.CapacityUnits
	}
	return nil
}

// meteredTable returns a table with n buckets, whose reads the meter counts from
// now on for programs that the test starts.
func meteredTable(t *testing.T, n int) (string, *unitMeter) {
	t.Helper()
	target, err := url.Parse(clitest.Engine.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	meter := &unitMeter{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: meter.note,
		ErrorLog:       log.New(io.Discard, "", 0), // reads that end with their viewers
	})
	t.Cleanup(proxy.Close)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL": proxy.URL,
	} {
		t.Setenv(name, value)
	}
	table := "viewers-" + strings.ToLower(rand.Text())
	if err := dynamo.CreateTable(t.Context(), table, nil); err != nil {
		t.Fatal(err)
	}
	fillTable(t, table, n)
	return table, meter
}

// fillTable makes n buckets.
func fillTable(t *testing.T, table string, n int) {
	t.Helper()
	repo, err := dynamo.Connect(t.Context(), table, &dynamo.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = repo.Close() }()
	lim, err := limiter.New(repo, &limiter.Options{
		Limits: []limiter.Limit{limiter.PerDay("rpd", 1000)}, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var acquiring sync.WaitGroup
	const callers = 8
	for from := range callers {
		acquiring.Go(func() {
			for i := from; i < n; i += callers {
				request := limiter.Request{
					Entity: fmt.Sprintf("key-%03d", i), Resource: "gpt-4", Consume: limiter.Tokens("rpd", 1),
				}
				if err := lim.Do(t.Context(), request, func(context.Context, *limiter.Lease) error {
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	acquiring.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// A hundred viewers want more at once than the budget allows in seconds. All see
// what they watch, and no more is read than the budget allows.
func TestDashboardReadBudget(t *testing.T) {
	const viewers, each, budget = 100, 2, 60
	table, meter := meteredTable(t, viewers*each)
	s := startServe(t, "dynamodb:"+table, "--listen", "127.0.0.1:0", "--dashboard", "--dashboard-read-budget",
		fmt.Sprint(budget))
	meter.reset()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var watching sync.WaitGroup
	for i := range viewers {
		page := s.page(nil)
		watching.Go(func() {
			if err := page.watch(ctx, i*each, each); err != nil {
				t.Errorf("viewer %d: %v", i, err)
			}
		})
	}
	watching.Wait()
	const slack = 10 // an answer that was larger than expected is paid afterwards
	used, allowed, unknown := meter.total(budget)
	t.Logf("%.1f units of %.1f", used, allowed)
	if used > allowed+slack || used < viewers*each/2 || len(unknown) > 0 {
		t.Errorf("used %.1f read units, the budget allows %.1f and the rows need %d; unknown %v", used, allowed,
			viewers*each/2, unknown)
	}
	if code, said := s.stop(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// watch opens the overview and a stream, and watches n buckets from a number on
// until it has seen them all.
func (v viewer) watch(ctx context.Context, from, n int) error {
	if res, err := v.send(ctx, http.MethodGet, "api/overview", ""); err != nil {
		return err
	} else if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		return fmt.Errorf("the overview: status %d", res.StatusCode)
	}
	res, err := v.send(ctx, http.MethodGet, "api/stream", "")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	missing := map[string]bool{}
	var keys [][2]string
	for i := range n {
		entity := fmt.Sprintf("key-%03d", from+i)
		missing[entity] = true
		keys = append(keys, [2]string{entity, "gpt-4"})
	}
	for scan := bufio.NewScanner(res.Body); scan.Scan(); {
		data, ok := strings.CutPrefix(scan.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			ID   string
			Rows []struct{ Entity string }
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return err
		}
		if event.ID != "" {
			if err := v.choose(ctx, event.ID, keys); err != nil {
				return err
			}
		}
		for _, row := range event.Rows {
			delete(missing, row.Entity)
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the stream ended before %d rows came, %v", len(missing), context.Cause(ctx))
}

// choose watches buckets on a stream.
func (v viewer) choose(ctx context.Context, id string, keys [][2]string) error {
	body, err := json.Marshal(map[string]any{"id": id, "keys": keys})
	if err != nil {
		return err
	}
	res, err := v.send(ctx, http.MethodPost, "api/watch", string(body))
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: status %d", res.StatusCode)
	}
	return nil
}
