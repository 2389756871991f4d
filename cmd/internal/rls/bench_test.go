package rls_test

import (
	"context"
	"testing"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/memory"
)

// BenchmarkShouldRateLimit measures a call without its transport.
func BenchmarkShouldRateLimit(b *testing.B) {
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := lim.SetSystemDefaults(
		b.Context(), limiter.PerSecond("rpm", 1e9), limiter.PerSecond("tpm", 1e9),
	); err != nil {
		b.Fatal(err)
	}
	parsed, err := rls.ParseRules([]byte(rules))
	if err != nil {
		b.Fatal(err)
	}
	s := rls.New(func(context.Context) (*limiter.RateLimiter, error) { return lim, nil }, parsed, nil)
	req := &ratelimit.RateLimitRequest{
		Domain: "edge", Descriptors: []*descriptors.RateLimitDescriptor{descriptor("asks", "alice")},
	}
	b.ReportAllocs()
	for b.Loop() {
		response, err := s.ShouldRateLimit(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := proto.Marshal(response); err != nil {
			b.Fatal(err)
		}
	}
}
