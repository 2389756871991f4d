package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// errDown is the error of a call to a server that is down.
var errDown = errors.New("connection refused")

// network is a listener in memory. A bubble of testing/synctest counts the
// goroutines of its servers and clients, and moves their clocks.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	server *http.Server
}

func newNetwork() *network {
	return &network{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of a new connection.
func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr returns an address that is never used.
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns the client's end of a new connection.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, errDown
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve starts a server in memory. It returns its transport, and a function that
// stops both.
func (n *network) serve(handler http.Handler) (*http.Transport, func()) {
	n.server = &http.Server{Handler: handler, ErrorLog: discardLog()}
	go func() { _ = n.server.Serve(n) }()
	transport := &http.Transport{DialContext: n.dial}
	return transport, func() {
		transport.CloseIdleConnections()
		_ = n.Close()
		_ = n.server.Close()
	}
}

// upstream returns the handler of another service, which misbehaves as its mode
// says.
func upstream(mode string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch mode {
		case "slow":
			<-r.Context().Done()
		case "cut before the header":
			panic(http.ErrAbortHandler)
		case "cut in mid-stream":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "endless":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "more "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
		case "429":
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = io.WriteString(w, "whole")
		}
	}
}
