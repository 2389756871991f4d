package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/proxy"
	"github.com/zeroae/zae-limiter-go/memory"
)

const (
	nameBareProxy = "bare ReverseProxy"
	nameProxy     = "zae-limiter proxy"
	proxyCallers  = 64
)

// frontProxy compares the latency of the proxy with a reverse proxy that does
// nothing else, with 64 callers and an upstream that answers at once.
func frontProxy(ctx context.Context, cfg config, r *report) (err error) {
	upstream := httptest.NewServer(http.HandlerFunc(completion))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		return err
	}
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	limited, err := limitedProxy(ctx, repo, target)
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	defer transport.CloseIdleConnections()
	bare := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	times := map[string]series{}
	bareServer, limitedServer := httptest.NewServer(bare), httptest.NewServer(limited)
	defer bareServer.Close()
	defer limitedServer.Close()
	servers := map[string]string{nameBareProxy: bareServer.URL, nameProxy: limitedServer.URL}
	for range cfg.rounds {
		for _, name := range []string{nameBareProxy, nameProxy} {
			clean()
			p50, err := medianThrough(ctx, servers[name], cfg.sample)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			times[name] = append(times[name], p50)
		}
	}
	ratios := times[nameProxy].over(times[nameBareProxy])
	r.atMost(1.3, ratios, "front: latency of the proxy / a bare ReverseProxy, 64 callers, p50")
	return r.table([]string{"proxy", "ns p50", "ratio"}, [][]string{
		{nameBareProxy, times[nameBareProxy].nanos(), ""},
		{nameProxy, times[nameProxy].nanos(), ratios.ratio()},
	})
}

// completion answers a chat completion at once.
func completion(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w,
		`{"choices":[{"message":{"role":"assistant","content":"`+strings.Repeat("hello ", 100)+
			`"}}],"usage":{"prompt_tokens":60,"completion_tokens":100,"total_tokens":160}}`)
}

// limitedProxy returns the proxy with an access log, as the command runs it.
func limitedProxy(ctx context.Context, repo limiter.Repository, target *url.URL) (http.Handler, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	err = lim.SetSystemDefaults(ctx, limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute))
	if err != nil {
		return nil, err
	}
	return proxy.New(lim, &proxy.Options{
		Upstream: target, NewEntities: proxyCallers, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
}

// medianThrough calls a proxy from many goroutines for a while, and returns the
// median time of a call in nanoseconds.
func medianThrough(ctx context.Context, at string, sample time.Duration) (float64, error) {
	end := time.Now().Add(max(sample, 200*time.Millisecond))
	transport := &http.Transport{MaxIdleConnsPerHost: proxyCallers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	times, errs := make([][]time.Duration, proxyCallers), make([]error, proxyCallers)
	var callers sync.WaitGroup
	for i := range proxyCallers {
		callers.Go(func() {
			for time.Now().Before(end) {
				begin := time.Now()
				if errs[i] = callCompletion(ctx, client, at, i); errs[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(begin))
			}
		})
	}
	callers.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	return float64(all[len(all)/2]), nil
}

func callCompletion(ctx context.Context, client *http.Client, at string, caller int) error {
	body := `{"model":"gpt-4","max_tokens":500,"messages":[{"role":"user","content":"` + strings.Repeat("hello ", 40) +
		`"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer sk-test-"+strconv.Itoa(caller))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
