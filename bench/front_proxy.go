package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	nameBareProxy = "bare ReverseProxy"
	nameProxy     = "zae-limiter proxy"
	proxyCallers  = 64
)

// frontProxy compares the latency of the proxy with a reverse proxy that does
// nothing else, with 64 callers and an upstream that answers at once. The upstream
// runs in this process, with the callers.
func frontProxy(ctx context.Context, cfg config, r *report, built *program) (err error) {
	upstream := httptest.NewServer(http.HandlerFunc(completion))
	defer upstream.Close()
	limited, limitedAddress, err := built.proxy(ctx, upstream.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limited.close()) }()
	bare, bareAddress, err := startBaseline(ctx, nameBareProxy, upstream.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()

	times := map[string]series{}
	servers := map[string]string{nameBareProxy: "http://" + bareAddress, nameProxy: "http://" + limitedAddress}
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

// proxy starts the proxy with an access log, and returns its address.
func (p *program) proxy(ctx context.Context, upstream string) (*child, string, error) {
	args := append([]string{
		"proxy", "--upstream", upstream, "--store", "memory:", "--listen", "127.0.0.1:0", "--new-entities",
		strconv.Itoa(proxyCallers),
	}, limitFlags()...)
	process, at, err := p.start(ctx, []string{" on http://"}, args...)
	if err != nil {
		return nil, "", err
	}
	return process, at[0], nil
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
