package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const healthService = "grpc.health.v1.Health"

// health answers probes over gRPC as /readyz does over HTTP, for the whole server
// and for each service.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	server   *Server
	services *grpc.Server
	watchers watchers
	stopping chan struct{}
	stop     func()
}

// watchEvery is how often a stream of Watch looks at the state.
const watchEvery = time.Second

func newHealth(s *Server, services *grpc.Server) *health {
	h := &health{server: s, services: services, stopping: make(chan struct{})}
	h.stop = sync.OnceFunc(func() { close(h.stopping) })
	return h
}

// knows reports whether there is a service of this name. The empty name is the
// server.
func (h *health) knows(name string) bool {
	if name == "" {
		return true
	}
	_, ok := h.services.GetServiceInfo()[name]
	return ok
}

// state returns whether the server can take work.
func (h *health) state(ctx context.Context) grpc_health_v1.HealthCheckResponse_ServingStatus {
	select {
	case <-h.stopping:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	default:
	}

	if h.server.unready(ctx) != "" {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// Check answers once.
func (h *health) Check(
	ctx context.Context, req *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	if !h.knows(req.GetService()) {
		return nil, status.Error(codes.NotFound, "there is no such service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: h.state(ctx)}, nil
}

// Watch answers at once and after each change, until the server shuts down.
func (h *health) Watch(
	req *grpc_health_v1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	place, err := h.watchers.enter(h.caller(stream.Context()))
	if err != nil {
		return err
	}
	defer h.watchers.leave(place)
	visitOf(stream.Context()).stay()

	look := time.NewTicker(watchEvery)
	defer look.Stop()
	// No state is UNKNOWN, so that the first look sends one.
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN

	for {
		// The protocol keeps a stream about an unknown service open, where
		// Check fails.
		now := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if h.knows(req.GetService()) {
			now = h.state(stream.Context())
		}

		if now != last {
			last = now
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}

		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-place.replaced:
			return errReplaced
		case <-h.stopping:
			// A client that saw SERVING hears of the change before the stream
			// ends.
			if last == grpc_health_v1.HealthCheckResponse_SERVING {
				_ = stream.Send(&grpc_health_v1.HealthCheckResponse{
					Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING,
				})
			}
			return status.Error(codes.Unavailable, "the server is shutting down")
		case <-look.C:
		}
	}
}

// caller returns the address of a stream's client, and reports whether it has a
// token.
func (h *health) caller(ctx context.Context) (addr string, known bool) {
	if from, ok := peer.FromContext(ctx); ok {
		addr = from.Addr.String()
	}

	if tokens := h.server.opts.Tokens; tokens != nil {
		_, known = tokens.CheckBearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	}
	return addr, known
}

// List answers for all services.
func (h *health) List(
	ctx context.Context, _ *grpc_health_v1.HealthListRequest,
) (*grpc_health_v1.HealthListResponse, error) {
	out := map[string]*grpc_health_v1.HealthCheckResponse{"": {Status: h.state(ctx)}}
	for name := range h.services.GetServiceInfo() {
		out[name] = &grpc_health_v1.HealthCheckResponse{Status: h.state(ctx)}
	}

	return &grpc_health_v1.HealthListResponse{Statuses: out}, nil
}
