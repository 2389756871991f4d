package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
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

// frontEnvoy compares Envoy's rate limit service on memory, as the program serves
// it, with a service of the same interface that answers OK and nothing else, both
// over loopback.
func frontEnvoy(ctx context.Context, cfg config, r *report, built *program) (err error) {
	limited, err := built.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limited.close()) }()
	bare, bareAddress, err := startBaseline(ctx, nameEmptyGRPC, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()

	conns := map[string]*grpc.ClientConn{}
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close())
		}
	}()
	for name, address := range map[string]string{nameEmptyGRPC: bareAddress, nameEnvoy: limited.grpc} {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		conns[name] = conn
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+built.token)

	names, rates := []string{nameEmptyGRPC, nameEnvoy}, map[string]series{}
	for range cfg.rounds {
		clean()
		sums := map[string]float64{}
		for range envoySlices {
			for _, name := range names {
				client := ratelimit.NewRateLimitServiceClient(conns[name])
				rate, err := callsPerSecond(ctx, client, cfg.sample/envoySlices)
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
