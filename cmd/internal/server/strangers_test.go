package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// pipes is a listener whose connections are in memory: a write ends when the server
// has read it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects to the server and reads, but for what it sends as answers.
func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	go func() { _, _ = io.Copy(io.Discard, near) }()
	return near
}

// wire writes frames of HTTP/2 into memory.
type wire struct {
	bytes.Buffer
	*http2.Framer
}

func newWire(settings ...http2.Setting) *wire {
	w := &wire{}
	w.Framer = http2.NewFramer(&w.Buffer, nil)
	w.WriteString(http2.ClientPreface)
	_ = w.WriteSettings(settings...)
	return w
}

// call adds the headers of a probe, whose token is unknown.
func (w *wire) call(stream uint32, more ...byte) {
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/" + healthService + "/Check"},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "authorization", Value: "Bearer unknown"},
	} {
		_ = fields.WriteField(f)
	}
	block.Write(more)
	_ = w.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: len(more) == 0,
	})
}

// Many connections without a token, with many streams, make gRPC hold little: neither
// in messages, nor in headers, nor in answers that are not taken.
func TestStrangersHoldLittle(t *testing.T) {
	tokens, _ := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	unfinished := binary.BigEndian.AppendUint32([]byte{0}, 60_000)
	for name, send := range map[string]struct {
		conns int
		write func(*wire)
	}{
		// An answer without room in the window of its stream keeps the stream.
		"answers that are not taken": {16, func(w *wire) {
			for i := range uint32(200) {
				w.call(2*i + 1)
				_ = w.WriteData(2*i+1, false, make([]byte, 5)) // an empty message
				for range 3 {
					_ = w.WriteData(2*i+1, false, make([]byte, 16<<10))
				}
			}
		}},
		"unfinished messages": {120, func(w *wire) {
			for i := range uint32(200) {
				w.call(2*i + 1)
				_ = w.WriteData(2*i+1, false, append(unfinished, make([]byte, 1000)...))
			}
		}},
		"unfinished headers": {500, func(w *wire) {
			// The last field of the table, again and again.
			w.call(1, bytes.Repeat([]byte{0x80 | 62}, 15_000)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemoryRig(t, Options{Tokens: tokens})
				l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				service := r.GRPC(l, func(grpc.ServiceRegistrar) {}, nil)
				served := make(chan error, 1)
				go func() { served <- service.Serve() }()

				w := newWire(http2.Setting{ID: http2.SettingInitialWindowSize})
				send.write(w)
				before := heap()
				var conns []net.Conn
				var all sync.WaitGroup
				for range send.conns {
					conn := l.dial()
					conns = append(conns, conn)
					// The server may close the connection.
					all.Go(func() { _, _ = conn.Write(w.Bytes()) })
				}
				synctest.Wait()
				const each, most = 64 << 10, 16 << 20
				if held := heap() - before; held > int64(most+send.conns*each) {
					t.Errorf("%d connections hold %d MiB", send.conns, held>>20)
				}
				for _, conn := range conns {
					_ = conn.Close()
				}
				all.Wait()
				if err := service.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// gRPC reads the next stream of a stranger when the last one waits for its message, or
// is answered, so that it reads no faster than handlers run.
func TestStrangerSendsOneStreamAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		guest := (&lobby{most: lobbyBytes}).receive(far)
		m := &meter{Conn: far, in: frames{skip: prefaceLength}}
		m.known.budget, m.strange.budget = newByteBudget(grpcBytes, 0), newByteBudget(grpcStrange, grpcProbes)
		m.guest.Store(guest)

		w := newWire()
		var ends []int // of what may be read at each step
		for stream := uint32(1); stream <= 5; stream += 2 {
			w.call(stream)
			ends = append(ends, w.Len())
			_ = w.WriteData(stream, false, make([]byte, 1000))
		}
		var read atomic.Int64
		var all sync.WaitGroup
		all.Go(func() { _, _ = near.Write(w.Bytes()) })
		all.Go(func() { _, _ = io.Copy(io.Discard, near) })
		all.Go(func() {
			for p := make([]byte, 1<<10); ; {
				n, err := m.Read(p)
				if err != nil {
					return
				}
				read.Add(int64(n))
			}
		})
		want := func(end int) {
			t.Helper()
			if synctest.Wait(); read.Load() != int64(end) {
				t.Errorf("gRPC has read %d bytes, want %d", read.Load(), end)
			}
		}
		want(ends[0])
		guest.last.settle() // it waits for its message
		want(ends[1])
		var answer bytes.Buffer
		_ = http2.NewFramer(&answer, nil).WriteRSTStream(3, http2.ErrCodeNo)
		_, _ = m.Write(answer.Bytes())
		want(ends[2])
		_ = m.Close()
		all.Wait()
		if guest.lobby.held != 0 || guest.lobby.order.Len() != 0 {
			t.Errorf("%d bytes of %d streams are held at the end", guest.lobby.held, guest.lobby.order.Len())
		}
	})
}

// A client without a token hears why its calls fail, however many and long they are,
// and the same connection works once it sends a token.
func TestStrangersHearWhy(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	check, _ := dialGRPC(t, newMemoryRig(t, Options{Tokens: tokens}))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if got := check("unknown", strings.Repeat("x", 100_000)); got != codes.Unauthenticated {
				t.Errorf("without a token: %v", got)
			}
		})
	}
	all.Wait()
	for range 5 {
		if got := check(secret[0], "key"); got != codes.OK {
			t.Errorf("with a token: %v", got)
		}
	}
}

// All of that holds above TLS.
func TestStrangersOverTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(certified.Certificate())

	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	r := newMemoryRig(t, Options{Tokens: tokens})
	service := r.GRPC(l, func(to grpc.ServiceRegistrar) {
		grpc_health_v1.RegisterHealthServer(to, spender{server: r.Server})
	}, &GRPCOptions{TLS: &tls.Config{Certificates: certified.TLS.Certificates}})
	served := make(chan error, 1)
	go func() { served <- service.Serve() }()
	conn, err := grpc.NewClient(l.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: trusted})))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		token, entity string
		want          codes.Code
	}{
		{"unknown", strings.Repeat("x", 100_000), codes.Unauthenticated},
		{secret[0], "key", codes.OK},
		{"unknown", "key", codes.Unauthenticated},
		{secret[0], strings.Repeat("x", 100_000), codes.Unknown}, // the error of the limiter,
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+test.token)
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
			&grpc_health_v1.HealthCheckRequest{Service: test.entity}, grpc.WaitForReady(true))
		if status.Code(err) != test.want {
			t.Errorf("%.7s, %.3s: %v, want %v", test.token, test.entity, err, test.want)
		}
	}
	_ = conn.Close()
	if err := errors.Join(service.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what was in a pool takes two
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse) //nolint:gosec // far below 2^63
}
