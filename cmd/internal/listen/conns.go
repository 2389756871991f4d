package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Conns bounds the connections of a server. A connection beyond the maximum replaces
// a stranger, which is a connection that never made a request that counts. So clients
// that connect and say little, however many, displace each other and no client that
// works. The oldest stranger goes if it has had a second for its first request, or if
// no client waits. Otherwise the client goes that has waited longest for its next
// request. If a request is under way on every connection, the new one is closed.
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
	set *Conns
	// busy counts the requests under way.
	busy atomic.Int64
	// ending reports that the handler of a request has returned, and that its answer
	// is on its way.
	ending atomic.Bool
	// handed reports that a handler has hijacked the connection.
	handed atomic.Bool
	// since is when the connection was accepted.
	since time.Time
	// served reports that a request that counts was made.
	served atomic.Bool
	// sent counts the bytes that the network took.
	sent atomic.Int64
	// last is when the connection was accepted, or last ended a request.
	last atomic.Int64
	once sync.Once
	// closed is closed with the connection.
	closed chan struct{}
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

		conn := &Conn{Conn: raw, set: l.set, since: time.Now(), closed: make(chan struct{})}
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

	// Close locks the set, so the lock is free by now.
	if evicted != nil {
		_ = evicted.Close()
	}
	return true
}

// drain refuses new connections, and closes those without a request under way. Receive
// closes others when they come to wait for their client.
func (s *Conns) drain() {
	// Connections that are accepted after this are refused, so that filter sees
	// all others.
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
// ordered by age, since requests that do not count must not keep them. A connection
// with an answer on its way comes last. Mostly its client has read the answer already.
func (s *Conns) idlest() *Conn {
	var stranger, idle, ending *Conn
	for c := range s.all {
		switch {
		// This is asked first, since a connection counts as busy until its
		// answer is sent.
		case c.ending.Load():
			ending = c
		case c.busy.Load() > 0:
		case !c.served.Load():
			if stranger == nil || c.since.Before(stranger.since) {
				stranger = c
			}
		case idle == nil || c.last.Load() < idle.last.Load():
			idle = c
		}
	}

	switch {
	case stranger != nil && (idle == nil || time.Since(stranger.since) >= strangerTime):
		return stranger
	case idle == nil:
		return ending
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

// Write writes to the connection, and counts the bytes.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// Close closes the connection and removes it from its set.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.set.mu.Lock()
		delete(c.set.all, c)
		c.set.mu.Unlock()
	})

	return c.Conn.Close()
}

// Closed returns a channel that is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

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

// Receive calls read, which waits for the client of a request, such as for the rest of
// a body. Meanwhile the request does not count as under way, so that the connection of
// a client that sends slowly can be replaced. In that case read fails.
func Receive(r *http.Request, read func()) {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
		conn.busy.Add(-1)
		defer conn.Begin()
		// drain may have looked while this request still counted as under way.
		if conn.set.draining.Load() {
			_ = conn.Close()
		}
	}

	read()
}

// Vouch says that the caller of a request is known, so that the request counts and its
// connection is not a stranger. It matters where Options.Vouching is set.
func Vouch(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
		conn.served.Store(true)
	}
}

// Sent returns the number of bytes that the network has taken on the connection of
// a request, so far.
func Sent(r *http.Request) int64 {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
		return conn.sent.Load()
	}
	return 0
}

// finish ends a request whose handler has returned. In HTTP/1, net/http sends the rest
// of the answer afterwards, and noteState ends the request then. A request whose body
// was not read to its end ends here, since net/http may first wait for the client to
// send the rest. So does one of HTTP/2, where the state of a connection shows the end
// of its last request alone.
func (c *Conn) finish(r *http.Request, body *countedBody) {
	unread := body != nil && !body.ended.Load()
	// A hijacked connection never becomes idle, which noteState would wait for.
	if r.ProtoMajor > 1 || unread || c.handed.Load() {
		c.rest()
		return
	}
	c.ending.Store(true)
}

// countedBody is the body of a request that knows whether it was read to its end.
type countedBody struct {
	io.ReadCloser
	ended atomic.Bool
}

// Read reads from the body.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// A body that breaks off ends with another error, which may wrap io.EOF.
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// noteState ends the request of a connection whose answer was sent.
func noteState(conn net.Conn, state http.ConnState) {
	c := underlying(conn)
	switch {
	case c == nil:
	case state == http.StateHijacked:
		c.handed.Store(true)
	case state == http.StateIdle && c.ending.CompareAndSwap(true, false):
		c.rest()
	}
}

// underlying returns the connection of ours that conn is or encrypts, or nil.
func underlying(conn net.Conn) *Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, _ := conn.(*Conn)
	return c
}

// countBusy marks the connection of a request as busy while next runs, and until
// the answer is sent. Every request counts, unless next vouches for them.
func countBusy(next http.Handler, vouching bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*Conn); ok {
			var body *countedBody
			if r.ContentLength != 0 && r.Body != nil {
				body = &countedBody{ReadCloser: r.Body}
				r.Body = body
			}

			conn.Begin()
			defer func() {
				if !vouching {
					conn.served.Store(true)
				}
				conn.finish(r, body)
			}()
		}

		if len(r.TransferEncoding) > 0 {
			// net/http ignores a Content-Length beside Transfer-Encoding. A proxy in front
			// that uses it would see the request end elsewhere, so the connection ends
			// with this request (RFC 9112, section 6.1).
			w.Header().Set("Connection", "close")
		}

		next.ServeHTTP(w, r)
	})
}
