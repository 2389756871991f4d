// Package listen runs the servers of a program: it binds addresses, bounds what
// slow and many clients can hold, serves TLS from files that may change, and
// drains on shutdown. It knows nothing about what the servers do.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ErrExposed matches the error of Bind for an address that other machines can
// reach.
var ErrExposed = errors.New("other machines can reach it")

// Bind listens on a TCP address. An IPv4 address means IPv4 alone. Unless exposed
// is true, Bind returns ErrExposed for an address that is not a loopback address.
func Bind(ctx context.Context, addr string, exposed bool) (net.Listener, error) {
	var config net.ListenConfig
	network := "tcp"
	// For 0.0.0.0, the network tcp would listen on all addresses of IPv6 as
	// well.
	if at, err := netip.ParseAddrPort(addr); err == nil && at.Addr().Is4() {
		network = "tcp4"
	}

	listener, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}

	// The bound address decides, since a host name can stand for any address.
	if bound, ok := listener.Addr().(*net.TCPAddr); !exposed && (!ok || !bound.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", addr, ErrExposed), listener.Close())
	}

	return listener, nil
}

// Options configures HTTP. The zero value of a field is its default. A negative
// time is no bound.
type Options struct {
	TLS *tls.Config // nil for plain HTTP
	// HeaderTimeout bounds a TLS handshake, and the time to receive the header of a
	// request; default 5 s.
	HeaderTimeout time.Duration
	// ReadTimeout bounds the time to receive a request with its body; default 30 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time from the end of the header to the end of the
	// answer; default 1 min.
	WriteTimeout time.Duration
	// IdleTimeout bounds the time between the requests of a connection; default 1 min.
	IdleTimeout time.Duration
	// HeaderBytes bounds the header of a request; default 16 KiB.
	HeaderBytes int
	// MaxConns bounds the connections at a time; default 4096. See Conns.
	MaxConns int
	// MaxRequests bounds the requests at a time, beyond which the answer is 503;
	// default 1024; negative for no bound.
	MaxRequests int
	// Vouching requires a call of Vouch before a connection counts as a client's.
	// Otherwise any request is enough.
	Vouching bool
	// Log receives failed handshakes and panics of handlers; default: they are dropped.
	Log *slog.Logger
}

// Defaults of Options.
const (
	DefaultHeaderTimeout = 5 * time.Second
	DefaultReadTimeout   = 30 * time.Second
	DefaultWriteTimeout  = time.Minute
	DefaultIdleTimeout   = time.Minute
	DefaultHeaderBytes   = 16 << 10
	DefaultMaxConns      = 4096
	DefaultMaxRequests   = 1024
)

// Server serves HTTP on one listener. It is a Service.
type Server struct {
	listener net.Listener
	conns    *Conns
	http     *http.Server
	tls      bool
}

// HTTP returns a server of handler on listener, which it owns from then on.
func HTTP(listener net.Listener, handler http.Handler, opts *Options) *Server {
	if opts == nil {
		opts = &Options{}
	}

	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}

	conns := NewConns(opts.MaxConns)
	return &Server{
		listener: conns.Listener(listener),
		conns:    conns,
		tls:      opts.TLS != nil,
		http: &http.Server{
			ConnState: noteState,
			Handler: countBusy(limitRequests(handler, cmp.Or(opts.MaxRequests, DefaultMaxRequests)),
				opts.Vouching),
			TLSConfig:         opts.TLS,
			ReadHeaderTimeout: bound(opts.HeaderTimeout, DefaultHeaderTimeout),
			ReadTimeout:       bound(opts.ReadTimeout, DefaultReadTimeout),
			WriteTimeout:      bound(opts.WriteTimeout, DefaultWriteTimeout),
			IdleTimeout:       bound(opts.IdleTimeout, DefaultIdleTimeout),
			MaxHeaderBytes:    cmp.Or(opts.HeaderBytes, DefaultHeaderBytes),
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			ConnContext:       rememberConn,
		},
	}
}

// bound returns a timeout for net/http, where 0 is no bound.
func bound(d, fallback time.Duration) time.Duration { return max(0, cmp.Or(d, fallback)) }

// Addr returns the address that the server is bound to.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until Shutdown. It returns nil then.
func (s *Server) Serve() error {
	var err error
	if s.tls {
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}

	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting, closes the connections without a request under way,
// waits for the requests under way until ctx ends, and then closes the rest. A
// request that has not arrived is not under way, so slow clients delay nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	// Shutdown of net/http would wait for clients that have not sent their request.
	s.conns.drain()

	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests are still under way on %s: %w", s.Addr(), err), s.http.Close())
	}

	// The listener is still open if Serve was never called.
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// limitRequests answers 503 beyond n requests at a time.
func limitRequests(next http.Handler, n int) http.Handler {
	if n < 0 {
		return next
	}

	free := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")

			// A client that has to wait must not keep a connection that others need.
			w.Header().Set("Connection", "close")
			refuse(w, http.StatusServiceUnavailable, "too many requests are under way; retry in a second")
		}
	})
}
