package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Conns bounds the connections of a server. A connection beyond the maximum
// replaces the oldest stranger, which never made a request that counts, else the
// connection that has waited longest for its next. So clients that connect and
// say little, however many, displace each other and no client that works. A
// stranger has a second for its first request, before others are replaced in its
// place. If a request is under way on every connection, the new one is closed.
type Conns struct {
	most     int
	draining atomic.Bool
	mu       sync.Mutex
	all      map[*Conn]struct{}
}

// NewConns returns an empty set of at most n connections; 0 is the default of
// Options.MaxConns.
func NewConns(n int) *Conns {
	return &Conns{most: cmp.Or(n, DefaultMaxConns), all: map[*Conn]struct{}{}}
}

// Conn is a connection that knows whether a request is under way on it.
type Conn struct {
	net.Conn
	set    *Conns
	busy   atomic.Int64
	since  time.Time    // when it was accepted
	served atomic.Bool  // a request that counts was made
	last   atomic.Int64 // when it was accepted, or last ended a request
	closed sync.Once
}

// Listener returns a listener whose connections belong to the set.
func (s *Conns) Listener(l net.Listener) net.Listener { return &connListener{l, s} }

type connListener struct {
	net.Listener
	set *Conns
}

// Accept waits for a connection and makes room for it.
func (l *connListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &Conn{Conn: raw, set: l.set, since: time.Now()}
		conn.touch()
		if l.set.add(conn) {
			return conn, nil
		}
		_ = raw.Close()
	}
}

// add adds a connection and reports whether there was room, or room was made.
func (s *Conns) add(conn *Conn) bool {
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return false
	}
	var evicted *Conn
	if len(s.all) >= s.most {
		if evicted = s.idlest(); evicted == nil {
			s.mu.Unlock()
			return false
		}
		delete(s.all, evicted)
	}
	s.all[conn] = struct{}{}
	s.mu.Unlock()
	if evicted != nil {
		_ = evicted.Close()
	}
	return true
}

// drain refuses new connections, and closes those without a request under way,
// now and when they come to wait for their client.
func (s *Conns) drain() {
	s.draining.Store(true)
	for _, c := range s.filter(func(c *Conn) bool { return c.busy.Load() == 0 }) {
		_ = c.Close()
	}
}

// CloseIdle closes the connections on which no request was under way for d.
func (s *Conns) CloseIdle(d time.Duration) {
	since := time.Now().Add(-d).UnixNano()
	for _, c := range s.filter(func(c *Conn) bool { return c.busy.Load() == 0 && c.last.Load() <= since }) {
		_ = c.Close()
	}
}

// Busy returns the number of connections with a request under way.
func (s *Conns) Busy() int {
	return len(s.filter(func(c *Conn) bool { return c.busy.Load() > 0 }))
}

// filter returns the connections for which keep is true.
func (s *Conns) filter(keep func(*Conn) bool) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []*Conn
	for c := range s.all {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// strangerTime is how long a connection may take for its first request before it
// is replaced rather than a client that waits.
const strangerTime = time.Second

// idlest returns the connection to replace, or nil if all are busy. Strangers are
// ordered by age, since requests that do not count must not keep them.
func (s *Conns) idlest() *Conn {
	var stranger, idle *Conn
	for c := range s.all {
		switch {
		case c.busy.Load() > 0:
		case !c.served.Load():
			if stranger == nil || c.since.Before(stranger.since) {
				stranger = c
			}
		case idle == nil || c.last.Load() < idle.last.Load():
			idle = c
		}
	}
	if stranger != nil && (idle == nil || time.Since(stranger.since) >= strangerTime) {
		return stranger
	}
	return idle
}

// Len returns the number of open connections.
func (s *Conns) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Begin records that a request begins on the connection.
func (c *Conn) Begin() { c.busy.Add(1) }

// End records that a request ended, and that it counts.
func (c *Conn) End() {
	c.served.Store(true)
	c.rest()
}

// rest records that a request ended.
func (c *Conn) rest() {
	c.touch()
	c.busy.Add(-1)
}

func (c *Conn) touch() { c.last.Store(time.Now().UnixNano()) }

// Close closes the connection and removes it from its set.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		c.set.mu.Lock()
		delete(c.set.all, c)
		c.set.mu.Unlock()
	})
	return c.Conn.Close()
}

// RemoteAddr returns the address of the client, from which ConnOf finds the
// connection.
func (c *Conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

// connAddr is the address of a client with its connection.
type connAddr struct {
	net.Addr
	conn *Conn
}

// ConnOf returns the connection of a client's address, or nil if the address is
// not from a connection of Conns. Servers of other protocols than HTTP learn the
// address of a request, and call Begin and End.
func ConnOf(addr net.Addr) *Conn {
	known, _ := addr.(connAddr)
	return known.conn
}

type connKey struct{}

// rememberConn stores the connection of a request in its context.
func rememberConn(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Receive calls read, which waits for the client of a request, as for the rest of
// a body. Meanwhile no request counts as under way, so that clients that send
// slowly can be replaced. Then read fails.
func Receive(r *http.Request, read func()) {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
		conn.busy.Add(-1)
		defer conn.Begin()
		if conn.set.draining.Load() {
			_ = conn.Close()
		}
	}
	read()
}

// Vouch marks the connection of a request as a client's: the request counts, since
// its caller is known. It matters where Options.Vouching is set.
func Vouch(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
		conn.served.Store(true)
	}
}

// countBusy marks the connection of a request as busy while next runs. Every
// request counts, unless next vouches for them.
func countBusy(next http.Handler, vouching bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
			conn.Begin()
			if vouching {
				defer conn.rest()
			} else {
				defer conn.End()
			}
		}
		next.ServeHTTP(w, r)
	})
}
