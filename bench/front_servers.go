package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// Names of the servers in tables, each after its baseline.
const (
	nameEmptyGRPC = "empty gRPC service"
	nameEnvoy     = "Envoy's rate limit service"
	nameSameJSON  = "empty handler, same JSON"
	nameServe     = "serve, acquire"
	nameBareProxy = "bare ReverseProxy"
	nameProxy     = "zae-limiter proxy"
)

const (
	serveCallers = 16 // connections, each with one request at a time
	envoyCallers = 64
	proxyCallers = 64
)

// frontTurns is how often two servers take turns in the time of a sample, so that a
// change of the machine's load meets both.
const frontTurns = 10

// calling makes a call, as the worker of the picker.
type calling func(context.Context, *picker) error

// besideServer measures a server of the program and its baseline, in turns, from so many
// callers. It returns the figures of both.
func besideServer(
	ctx context.Context, cfg config, callers int, bare string, callBare calling, ours string, callOurs calling,
) (measured, caller, caller, error) {
	without, with := caller{bare, callers}, caller{ours, callers}
	clean()
	all, err := hotRounds(ctx, cfg.rounds*frontTurns, cfg.sample/frontTurns, newKeyset(1), []hotProbe{
		{id: without, every: 1, call: callBare}, {id: with, every: 1, call: callOurs},
	})
	return all, without, with, err
}

const envoyRules = `
rules:
  - match: {api_key: "*", model: "*"}
    entity: "{api_key}"
    resource: "{model}"
    consume: {rpm: 1, tpm: hits}
`

// frontEnvoy compares Envoy's rate limit service on memory, as the program serves
// it, with a service of the same interface that answers OK and nothing else, both
// over loopback.
func frontEnvoy(ctx context.Context, cfg config, r *report, built *program) (err error) {
	limited, err := built.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limited.close()) }()
	empty, emptyAddress, err := startBaseline(ctx, nameEmptyGRPC, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.close()) }()

	bare, bareErr := dialEnvoy(emptyAddress)
	ours, oursErr := dialEnvoy(limited.grpc)
	if err := errors.Join(bareErr, oursErr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close(), ours.Close()) }()

	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+built.token)
	all, without, with, err := besideServer(ctx, cfg, envoyCallers,
		nameEmptyGRPC, askEnvoy(bare), nameEnvoy, askEnvoy(ours))
	if err != nil {
		return err
	}

	share := all.over(with, without, perSecond)
	r.atLeast(0.6, share, "front: calls a second of Envoy's service on memory, as a share of an empty gRPC service")
	return r.table([]string{"gRPC service", "calls a second", "share"}, [][]string{
		{nameEmptyGRPC, all.of(without, perSecond).nanos(), ""},
		{nameEnvoy, all.of(with, perSecond).nanos(), share.ratio()},
	})
}

func dialEnvoy(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// askEnvoy returns a call of a rate limit service.
func askEnvoy(conn *grpc.ClientConn) calling {
	client := ratelimit.NewRateLimitServiceClient(conn)
	request := &ratelimit.RateLimitRequest{Domain: "edge", Descriptors: []*descriptors.RateLimitDescriptor{{
		Entries: []*descriptors.RateLimitDescriptor_Entry{
			{Key: "api_key", Value: "key-1"}, {Key: "model", Value: "gpt-4"},
		},
	}}}
	return func(ctx context.Context, _ *picker) error {
		response, err := client.ShouldRateLimit(ctx, request)
		if err == nil && response.GetOverallCode() != ratelimit.RateLimitResponse_OK {
			err = errRefused
		}
		return err
	}
}

const serveBody = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1,"tpm":500},"commit":true}`

// frontServe compares an acquire over HTTP, as the program serves it, with an empty
// handler that decodes the same request and sends the same answer.
func frontServe(ctx context.Context, cfg config, r *report, built *program) (err error) {
	server, err := built.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	limits, err := dialHTTP(ctx, server.http, built.token)
	if err != nil {
		return err
	}
	defer limits.close()
	answer, err := limits.exchange(0)
	if err != nil {
		return err
	}

	process, address, err := startBaseline(ctx, nameSameJSON, string(answer))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.close()) }()
	bare, err := dialHTTP(ctx, address, built.token)
	if err != nil {
		return err
	}
	defer bare.close()

	all, without, with, err := besideServer(ctx, cfg, serveCallers, nameSameJSON, bare.call, nameServe, limits.call)
	if err != nil {
		return err
	}

	share := all.over(with, without, perSecond)
	r.atLeast(0.5, share, "front: requests/s of serve / of an empty handler with the same JSON, %d connections",
		serveCallers)
	return r.table([]string{"server", "requests/s", "share"}, [][]string{
		{nameSameJSON, all.of(without, perSecond).nanos(), ""},
		{nameServe, all.of(with, perSecond).nanos(), share.ratio()},
	})
}

// httpConns holds an open connection to a server for each caller, and the request
// that they send. It takes much less of the CPU than package net/http.
type httpConns struct {
	request []byte
	conns   []net.Conn
	readers []*bufio.Reader
}

func dialHTTP(ctx context.Context, address, token string) (*httpConns, error) {
	c := &httpConns{request: fmt.Appendf(nil,
		"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		token, len(serveBody), serveBody)}
	for range serveCallers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			c.close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		c.readers = append(c.readers, bufio.NewReader(conn))
	}
	return c, nil
}

func (c *httpConns) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func (c *httpConns) call(_ context.Context, p *picker) error {
	_, err := c.exchange(p.worker)
	return err
}

// exchange sends a request on a connection, and returns the answer.
func (c *httpConns) exchange(i int) ([]byte, error) {
	if _, err := c.conns[i].Write(c.request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(c.readers[i], nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, body)
	}
	return body, errors.Join(err, res.Body.Close())
}

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

	transport := &http.Transport{MaxIdleConnsPerHost: proxyCallers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	all, without, with, err := besideServer(ctx, cfg, proxyCallers,
		nameBareProxy, askCompletion(client, bareAddress), nameProxy, askCompletion(client, limitedAddress))
	if err != nil {
		return err
	}

	ratios := all.over(with, without, p50)
	r.atMost(1.3, ratios, "front: latency of the proxy / a bare ReverseProxy, 64 callers, p50")
	return r.table([]string{"proxy", "ns p50", "ratio"}, [][]string{
		{nameBareProxy, all.of(without, p50).nanos(), ""},
		{nameProxy, all.of(with, p50).nanos(), ratios.ratio()},
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

// askCompletion returns a call of a chat completion, with a key for each caller.
func askCompletion(client *http.Client, address string) calling {
	body := `{"model":"gpt-4","max_tokens":500,"messages":[{"role":"user","content":"` + strings.Repeat("hello ", 40) +
		`"}]}`
	return func(ctx context.Context, p *picker) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions",
			strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer sk-test-"+strconv.Itoa(p.worker))

		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
}
