package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// dynamoConfig returns a configuration with longer samples and more rounds:
// calls to a table are slower than calls to memory, and their tail matters.
func dynamoConfig(cfg config, longer int) config {
	cfg.rounds += cfg.rounds / 2
	cfg.sample *= time.Duration(longer)
	return cfg
}

// dynamoSection measures on DynamoDB Local. It leaves out what cannot be
// started, and prints a line about it.
func dynamoSection(ctx context.Context, cfg config, r *report) error {
	cfg = dynamoConfig(cfg, 6)

	return onEngine(ctx, cfg, r, func(endpoint string) (err error) {
		py := pythonOrNot(ctx, cfg, r, endpoint)
		defer func() { err = errors.Join(err, py.close()) }()

		if err := prepare(ctx, endpoint); err != nil {
			return err
		}

		// Counting needs a proxy in between, so it stays out of the timed rounds.
		counts, err := requestsPerCall(ctx, cfg.callers, endpoint, py)
		if err != nil {
			return err
		}

		all, err := measureTable(ctx, cfg, endpoint, py)
		if err != nil {
			return err
		}

		r.line("  %d rounds, samples of %v", cfg.rounds, cfg.sample)
		for _, n := range cfg.callers {
			r.atLeast(0.95, all.over(caller{nameOurs, n}, caller{nameRaw, n}, perSecond),
				"dynamo: our throughput / raw UpdateItem, %s", callersOf(n))
		}

		return r.table([]string{
			"callers", "what", "calls/s", "x raw", "p50 us", "p99 us", "client CPU us", "x raw", "requests/call",
		}, dynamoRows(cfg, all, counts))
	})
}

// callersOf returns the number of callers in words.
func callersOf(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// pythonOrNot returns nil and prints a line if Python is not available.
func pythonOrNot(ctx context.Context, cfg config, r *report, endpoint string) *python {
	py, err := startPython(ctx, cfg.python, endpoint)
	if err != nil {
		r.line("  without Python: %s", oneLine(err))
		return nil
	}
	return py
}

// measureTable runs all probes on a prepared table.
func measureTable(ctx context.Context, cfg config, endpoint string, py *python) (_ measured, err error) {
	g, err := newRig(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()

	table, err := py.table(endpoint)
	if err != nil {
		return nil, err
	}

	return rounds(ctx, cfg, g.probes(ctx, cfg.callers, table))
}

// inOrder returns the measured contenders in the order of tables.
func (m measured) inOrder(callers []int) (all []caller) {
	for _, n := range callers {
		for _, what := range []string{nameRaw, nameOurs, nameCascade, namePython} {
			if _, ok := m[caller{what, n}]; ok {
				all = append(all, caller{what, n})
			}
		}
	}
	return all
}

// besideRaw returns a metric as a multiple of the raw client's.
func (m measured) besideRaw(id caller, what metric) string {
	if id.what == nameRaw {
		return ""
	}
	return m.over(id, caller{nameRaw, id.callers}, what).ratio()
}

// micros returns the median in microseconds. Ratios show the spread.
func (m measured) micros(id caller, what metric) string {
	return fmt.Sprintf("%.0f", m.of(id, what).median()/1000)
}

func dynamoRows(cfg config, all measured, counts map[caller]float64) (rows [][]string) {
	for _, id := range all.inOrder(cfg.callers) {
		rows = append(rows, []string{
			strconv.Itoa(id.callers), id.what, fmt.Sprintf("%.0f", all.of(id, perSecond).median()),
			all.besideRaw(id, perSecond),
			all.micros(id, p50), all.micros(id, p99), all.micros(id, cpuPerCall), all.besideRaw(id, cpuPerCall),
			fmt.Sprintf("%.2f", counts[id]),
		})
	}
	return rows
}

// requestsPerCall counts the requests of each way to call a table. It uses
// separate clients behind a proxy, so it does not disturb the timed ones.
func requestsPerCall(
	ctx context.Context, callers []int, endpoint string, py *python,
) (_ map[caller]float64, err error) {
	var seen atomic.Int64
	proxy, stop, err := countingProxy(ctx, endpoint, &seen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	g, err := newRig(ctx, proxy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()

	table, err := py.table(proxy)
	if err != nil {
		return nil, err
	}

	counts := map[caller]float64{}
	for _, p := range g.probes(ctx, callers, table) {
		const calls = 200
		// The first call of all also reads what later ones have cached.
		if _, err := p.run(1); err != nil {
			return nil, err
		}

		before := seen.Load()
		if _, err := p.run(calls); err != nil {
			return nil, err
		}
		// Each run begins with calls to warm up, which are counted too.
		counts[p.id] = float64(seen.Load()-before) / float64(calls+warmup(calls))
	}
	return counts, nil
}

// countingProxy forwards and counts requests.
func countingProxy(
	ctx context.Context, endpoint string, seen *atomic.Int64,
) (address string, stop func() error, err error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return "", nil, err
	}

	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		proxy.ServeHTTP(w, r)
	}))
}
