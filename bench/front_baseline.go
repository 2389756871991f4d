package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// baselineCommand is the first argument of a process that serves what the program
// is compared with. The others are its name in the table, and what it works with:
// an answer, or the URL of an upstream.
const baselineCommand = "-baseline"

// startBaseline starts this program as a baseline, and returns its address.
func startBaseline(ctx context.Context, name, with string) (*child, string, error) {
	return startServer(ctx, thisProgram, baselineCommand, name, with)
}

// serveBaseline prints its address and serves until in ends. It runs in a process
// of its own, as the program does.
func serveBaseline(ctx context.Context, name, with string, in io.Reader, out io.Writer) error {
	server, err := newBaseline(name, with)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	fmt.Fprintln(out, listener.Addr())
	go func() { _ = server.Serve(listener) }() // until it is closed
	_, _ = io.Copy(io.Discard, in)
	return listener.Close()
}

func newBaseline(name, with string) (interface{ Serve(net.Listener) error }, error) {
	switch name {
	case nameEmptyGRPC:
		server := grpc.NewServer()
		ratelimit.RegisterRateLimitServiceServer(server, emptyGRPC{})
		return server, nil
	case nameSameJSON:
		return &http.Server{ // with the timeouts of the program, since deadlines cost time
			Handler:           sameJSON([]byte(with)),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      time.Minute,
			IdleTimeout:       time.Minute,
		}, nil
	case nameBareProxy:
		target, err := url.Parse(with)
		return &http.Server{Handler: bareProxy(target), ReadHeaderTimeout: time.Minute}, err
	}
	return nil, fmt.Errorf("there is no baseline %q", name)
}

// emptyGRPC admits everything.
type emptyGRPC struct {
	ratelimit.UnimplementedRateLimitServiceServer
}

func (emptyGRPC) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}, nil
}

// sameJSON returns a handler that decodes a request and always sends answer.
func sameJSON(answer []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Entity   string           `json:"entity_id"`
			Resource string           `json:"resource"`
			Consume  map[string]int64 `json:"consume"`
			Commit   bool             `json:"commit"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
}

// bareProxy returns a reverse proxy that does nothing else.
func bareProxy(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
}
