package rls

import (
	"context"
	"sync/atomic"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
)

// maxDescriptors bounds the work of one call. Envoy sends a few.
const maxDescriptors = 100

// Source returns the limiter of a call, such as the view of the namespace that
// the caller may use. An error with a gRPC status passes to the caller unchanged.
type Source func(ctx context.Context) (*limiter.RateLimiter, error)

// Options configures New. The zero value of a field is its default.
type Options struct {
	// OnError receives what operators should know and Envoy does not show: outages,
	// give-backs that failed, and descriptors that cannot be judged. It contains no
	// value of a descriptor, which may be a secret. Default: nothing.
	OnError func(error)
}

// Service answers Envoy's calls. It is safe for concurrent use.
type Service struct {
	ratelimit.UnimplementedRateLimitServiceServer
	source Source
	rules  atomic.Pointer[Rules]
	report func(error)
}

// New returns a service that judges by rules.
func New(source Source, rules *Rules, opts *Options) *Service {
	s := &Service{source: source, report: func(error) {}}
	if opts != nil && opts.OnError != nil {
		s.report = opts.OnError
	}

	s.SetRules(rules)
	return s
}

// SetRules replaces the rules. Running calls finish with the rules they began
// with.
func (s *Service) SetRules(rules *Rules) { s.rules.Store(rules) }

// Register adds the service to a gRPC server.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	ratelimit.RegisterRateLimitServiceServer(server, s)
}

// ShouldRateLimit judges the descriptors of a call in order. If one is refused,
// it rolls back what the earlier ones took.
func (s *Service) ShouldRateLimit(
	ctx context.Context, req *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}

	lim, err := s.source(ctx)
	if err != nil {
		return nil, s.fail(err)
	}

	// SetRules may replace the rules while the call is under way.
	rules := s.rules.Load()
	t := &transaction{lim: lim, report: s.report, calls: make([]call, len(req.GetDescriptors()))}
	for i, d := range req.GetDescriptors() {
		t.calls[i] = rules.call(req, d)
	}

	if err := t.run(ctx); err != nil {
		return nil, s.fail(err)
	}

	return t.response(rules.headers), nil
}

func validate(req *ratelimit.RateLimitRequest) error {
	switch n := len(req.GetDescriptors()); {
	case req.GetDomain() == "":
		return status.Error(codes.InvalidArgument, "the domain is empty; set it in the filter's configuration")
	case n == 0:
		return status.Error(codes.InvalidArgument, "there is no descriptor; send at least one")
	case n > maxDescriptors:
		return status.Errorf(codes.InvalidArgument, "%d descriptors are too many; send at most %d", n, maxDescriptors)
	}
	return nil
}
