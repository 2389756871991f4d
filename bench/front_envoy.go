package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rls"
	"github.com/zeroae/zae-limiter-go/memory"
)

// Names of the gRPC services in the table.
const (
	nameEmptyGRPC = "empty gRPC service"
	nameEnvoy     = "Envoy's rate limit service"
)

const (
	envoyCallers = 64 // calls at a time
	envoySlices  = 10 // of a sample; the services take turns, so that both meet the same neighbours
)

const envoyRules = `
rules:
  - match: {api_key: "*", model: "*"}
    entity: "{api_key}"
    resource: "{model}"
    consume: {rpm: 1, tpm: hits}
`

// frontEnvoy compares Envoy's rate limit service on memory with a service of the
// same interface that answers OK and nothing else, both over loopback.
func frontEnvoy(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	limited, err := envoyService(ctx, repo)
	if err != nil {
		return err
	}
	names := []string{nameEmptyGRPC, nameEnvoy}
	bare, stopBare, err := serveGRPC(ctx, emptyGRPC{})
	if err != nil {
		return err
	}
	defer stopBare()
	envoy, stopEnvoy, err := serveGRPC(ctx, limited)
	if err != nil {
		return err
	}
	defer stopEnvoy()
	clients := map[string]ratelimit.RateLimitServiceClient{nameEmptyGRPC: bare, nameEnvoy: envoy}
	rates := map[string]series{}
	for range cfg.rounds {
		clean()
		sums := map[string]float64{}
		for range envoySlices {
			for _, name := range names {
				rate, err := callsPerSecond(ctx, clients[name], cfg.sample/envoySlices)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				sums[name] += rate / envoySlices
			}
		}
		for _, name := range names {
			rates[name] = append(rates[name], sums[name])
		}
	}
	share := make(series, cfg.rounds)
	for i := range share {
		share[i] = rates[nameEnvoy][i] / rates[nameEmptyGRPC][i]
	}
	r.atLeast(0.6, share, "front: calls a second of Envoy's service on memory, as a share of an empty gRPC service")
	return r.table([]string{"gRPC service", "calls a second", "share"}, [][]string{
		{nameEmptyGRPC, strconv.Itoa(int(rates[nameEmptyGRPC].median())), ""},
		{nameEnvoy, strconv.Itoa(int(rates[nameEnvoy].median())), share.ratio()},
	})
}

// emptyGRPC admits everything.
type emptyGRPC struct {
	ratelimit.UnimplementedRateLimitServiceServer
}

func (emptyGRPC) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}, nil
}

// envoyService returns the rate limit service with two limits that are never
// reached.
func envoyService(ctx context.Context, repo limiter.Repository) (*rls.Service, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	err = lim.SetSystemDefaults(ctx, limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute))
	if err != nil {
		return nil, err
	}
	rules, err := rls.ParseRules([]byte(envoyRules))
	if err != nil {
		return nil, err
	}
	return rls.New(func(context.Context) (*limiter.RateLimiter, error) { return lim, nil }, rules, nil), nil
}

// serveGRPC serves on a loopback port and returns a client.
func serveGRPC(
	ctx context.Context, service ratelimit.RateLimitServiceServer,
) (_ ratelimit.RateLimitServiceClient, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		server.Stop()
		return nil, nil, err
	}
	return ratelimit.NewRateLimitServiceClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}, nil
}

// callsPerSecond calls for a sample, envoyCallers at a time.
func callsPerSecond(
	ctx context.Context, client ratelimit.RateLimitServiceClient, sample time.Duration,
) (float64, error) {
	request := &ratelimit.RateLimitRequest{Domain: "edge", Descriptors: []*descriptors.RateLimitDescriptor{{
		Entries: []*descriptors.RateLimitDescriptor_Entry{
			{Key: "api_key", Value: "key-1"}, {Key: "model", Value: "gpt-4"},
		},
	}}}
	var calls atomic.Int64
	errs := make([]error, envoyCallers)
	begin := time.Now()
	var callers sync.WaitGroup
	for i := range envoyCallers {
		callers.Go(func() {
			for time.Since(begin) < sample && errs[i] == nil {
				response, err := client.ShouldRateLimit(ctx, request)
				if errs[i] = err; err == nil && response.GetOverallCode() != ratelimit.RateLimitResponse_OK {
					errs[i] = errors.New("a call was refused")
				}
				calls.Add(1)
			}
		})
	}
	callers.Wait()
	return float64(calls.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}
