package rls_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/internal/engine"
	"github.com/zeroae/zae-limiter-go/internal/engine/envoy"
)

//go:embed testdata/envoy.yaml
var envoyConfig string

// rig is Envoy between a client and a server, and the rate limit service. One
// Envoy serves all tests.
type rig struct {
	envoy    *envoy.Server
	upstream *httptest.Server
	limiter  *grpc.Server
	service  current
	reached  atomic.Int64  // requests that the server saw
	answered chan struct{} // one for each answer of the rate limit service
	late     string        // an address on which nothing listens
}

// current is the service of the running test.
type current struct {
	ratelimit.UnimplementedRateLimitServiceServer
	atomic.Pointer[rls.Service]
}

func (c *current) ShouldRateLimit(
	ctx context.Context, req *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	return c.Load().ShouldRateLimit(ctx, req)
}

var shared = sync.OnceValues(startRig)

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if r, err := shared(); err == nil {
			if err := r.stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop Envoy:", err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// started reports whether a test has started the rig. Only these tests write it,
// one after the other.
var started bool

// front returns the rig with the service of w.
func front(t *testing.T, w *world) *rig {
	t.Helper()
	started = true
	r, err := shared()
	engine.Require(t, err)
	r.service.Store(w.Service)
	r.reached.Store(0)
	r.drain()
	return r
}

func startRig() (_ *rig, err error) {
	r := &rig{answered: make(chan struct{}, 1000)}
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.reached.Add(1)
		w.Header().Set("X-Tokens", req.Header.Get("X-Tokens"))
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	r.late = closed.Addr().String()
	r.limiter = r.serve(listener)
	config := strings.NewReplacer("UPSTREAM", port(r.upstream.Listener.Addr().String()), "LIMITER",
		port(listener.Addr().String()), "LATE", port(r.late)).Replace(envoyConfig)
	r.envoy, err = envoy.Start(config)
	if err = errors.Join(err, closed.Close()); err != nil {
		r.limiter.Stop()
		r.upstream.Close()
		return nil, err
	}
	return r, nil
}

// serve runs the rate limit service of the running test on a listener.
func (r *rig) serve(listener net.Listener) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		defer func() { r.answered <- struct{}{} }()
		return handler(ctx, req)
	}))
	ratelimit.RegisterRateLimitServiceServer(server, &r.service)
	go func() { _ = server.Serve(listener) }()
	return server
}

func (r *rig) stop() error {
	err := r.envoy.Stop()
	r.limiter.Stop()
	r.upstream.Close()
	return err
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// drain forgets earlier answers.
func (r *rig) drain() {
	for {
		select {
		case <-r.answered:
		default:
			return
		}
	}
}

// await waits for n answers of the rate limit service.
func (r *rig) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-r.answered:
		case <-time.After(20 * time.Second):
			t.Fatal("Envoy did not ask the rate limit service")
		}
	}
}

// seen is the answer that a client of Envoy gets.
type seen struct {
	code   int
	header http.Header
	body   string
}

// get sends a request through a listener of Envoy, with headers in pairs.
func (r *rig) get(t *testing.T, listener string, headers ...string) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.envoy.Addr(listener), http.NoBody)
	check(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	body, err := io.ReadAll(response.Body)
	check(t, errors.Join(err, response.Body.Close()))
	return seen{response.StatusCode, response.Header, string(body)}
}
