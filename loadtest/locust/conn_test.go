package locust

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/vmihailenco/msgpack/v5"
)

// patience limits a wait for another goroutine. No test waits that long.
const patience = 20 * time.Second

// router is a master on the wire: a socket of zmq4, as far as a test needs it.
type router struct {
	*testing.T
	zmq4.Socket
	address string
	worker  string // its name in the last message
}

func listen(t *testing.T, address string) *router {
	t.Helper()
	socket := zmq4.NewRouter(context.Background())
	if err := socket.Listen("tcp://" + address); err != nil {
		t.Fatal(err)
	}
	return &router{t, socket, socket.Addr().String(), "worker-1"}
}

// Close closes the socket. zmq4 itself closes the connection of a worker that has
// left, at any moment, and then reports that it was closed.
func (r *router) Close() error {
	if err := r.Socket.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// next returns the type and the data of the next message, without heartbeats and
// reports.
func (r *router) next() (kind string, data any) {
	r.Helper()
	for {
		m, err := r.Recv()
		if err != nil || len(m.Frames) != 2 || !strings.HasPrefix(string(m.Frames[0]), "worker-1") {
			r.Fatalf("%v, %v", m, err)
		}
		r.worker = string(m.Frames[0])
		var triple []any
		if err := msgpack.Unmarshal(m.Frames[1], &triple); err != nil &&
			!bytes.Contains(m.Frames[1], []byte(msgStats)) {
			r.Fatal(err)
		}
		if kind, _ := triple[0].(string); kind != msgHeartbeat && kind != msgStats {
			return kind, triple[1]
		}
	}
}

func (r *router) want(kinds ...string) {
	r.Helper()
	for _, want := range kinds {
		if kind, _ := r.next(); kind != want {
			r.Fatalf("the worker sent %q, want %q", kind, want)
		}
	}
}

func (r *router) say(kind string, data any) {
	r.Helper()
	frame, err := msgpack.Marshal([]any{kind, data, r.worker})
	if err != nil {
		r.Fatal(err)
	}
	r.raw(frame)
}

func (r *router) raw(frame []byte) {
	r.Helper()
	if err := r.Send(zmq4.NewMsgFrom([]byte(r.worker), frame)); err != nil {
		r.Fatal(err)
	}
}

// work runs a worker for a master at an address until the test ends.
func work(t *testing.T, address string) (ended chan error, m *fakeMaster) {
	t.Helper()
	m = &fakeMaster{T: t}
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	opts := &Options{
		ID: "worker-1", Classes: []string{"A", "B"}, HeartbeatInterval: 5 * time.Millisecond,
		ReportInterval: 10 * time.Millisecond,
	}
	go func() {
		_, err := Work(ctx, address, m.open, opts)
		ended <- err
	}()
	t.Cleanup(cancel)
	return ended, m
}

func mustEnd(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("the worker does not end")
		return nil
	}
}

// The worker speaks ZMTP, ignores what is no message, survives the end of its
// master, and leaves no goroutine.
func TestWorkerOnTheWire(t *testing.T) {
	before := runtime.NumGoroutine()
	master := listen(t, "127.0.0.1:0")
	ended, _ := work(t, master.address)
	if kind, version := master.next(); kind != msgReady || version != Version {
		t.Fatalf("it begins with %q %v", kind, version)
	}
	master.say(msgAck, map[string]any{"index": 0})
	for _, garbage := range [][]byte{
		{},
		{0xc1},
		[]byte("GET / HTTP/1.1"),
		{0x93, 0xa5},
		{0x93, 0xc0, 0xc0, 0xc0},
		bytes.Repeat([]byte{0x91}, 100_000),
	} {
		master.raw(garbage)
	}
	master.say(msgSpawn, map[string]any{
		"timestamp": 1, "user_classes_count": map[string]int{"A": 300}, "parsed_options": nil,
	})
	master.want(msgSpawning, msgSpawned)
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	master = listen(t, master.address)
	master.want(msgReady)
	master.say(msgQuit, nil)
	master.want(msgQuit)
	if err := mustEnd(t, ended); err != nil {
		t.Error(err)
	}
	if err := master.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// zmq4 would allocate what a header announces.
func TestMessageThatIsTooLongEndsTheConnection(t *testing.T) {
	for name, header := range map[string][]byte{
		"length":        binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<62),
		"one too many":  binary.BigEndian.AppendUint64([]byte{flagLong}, maxMessage+1),
		"many frames":   bytes.Repeat(append([]byte{flagMore, 200}, make([]byte, 200)...), maxMessage/200+1),
		"negative size": {flagLong, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				tcp, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = zmq4.Open(tcp, null.Security(), zmq4.Router, nil, true, nil)
				_, _ = tcp.Write(header)
				_, _ = io.Copy(io.Discard, tcp)
				_ = tcp.Close()
			}()
			c, err := dial(t.Context(), l.Addr().String(), "worker-1")
			if err != nil {
				t.Fatal(err)
			}
			if m, err := c.receive(); err == nil || !strings.Contains(err.Error(), "longer than") {
				t.Errorf("%v, %v", m, err)
			}
			if err := c.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGuardFollowsFrames(t *testing.T) {
	long := append(binary.BigEndian.AppendUint64([]byte{flagLong}, 300), make([]byte, 300)...)
	stream := bytes.Repeat([]byte{0}, greetingSize)
	for range 2 * maxMessage / len(long) { // more than a message may have, in many messages
		stream = append(stream, long...)
		stream = append(stream, flagMore, 1, 0, 0, 2, 7, 7)
	}
	for _, step := range []int{1, 7, len(stream)} {
		g := &guard{skip: greetingSize}
		for rest := stream; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			if err := g.follow(rest[:min(step, len(rest))]); err != nil {
				t.Fatalf("in steps of %d: %v", step, err)
			}
		}
		if g.skip != 0 || len(g.header) != 0 {
			t.Errorf("in steps of %d: it is in the middle of a frame", step)
		}
	}
}

func TestDialingSomethingElse(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, address := range []string{strings.TrimPrefix(web.URL, "http://"), silent.Addr().String()} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c, err := dial(ctx, address, "worker-1")
		if c != nil || err == nil || !strings.Contains(err.Error(), "does not answer as a Locust master") {
			t.Errorf("%v, %v", c, err)
		}
		cancel()
	}
}

// close returns after the master has read everything, although it has sent
// something that nothing read.
func TestCloseDeliversTheLastReport(t *testing.T) {
	master := listen(t, "127.0.0.1:0")
	defer func() { _ = master.Close() }()
	c, err := dial(t.Context(), master.address, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.send(message{kind: msgReady, data: Version}); err != nil {
		t.Fatal(err)
	}
	master.want(msgReady)
	for range 100 {
		master.say(msgHeartbeat, nil)
	}
	for range 100 {
		if err := c.send(message{
			kind: msgException, data: map[string]any{"msg": strings.Repeat("x", 5000)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- c.close() }()
	for range 100 {
		master.want(msgException)
	}
	if err := mustEnd(t, closed); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
