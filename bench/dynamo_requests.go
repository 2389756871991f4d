package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

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
