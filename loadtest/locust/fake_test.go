package locust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// fakeMaster is a master in the process of a test, without a network. Each dial
// makes a link.
type fakeMaster struct {
	*testing.T
	begin    time.Time
	refuse   atomic.Bool // dialing fails
	mu       sync.Mutex
	links    []*fakeLink // guarded by mu
	swarms   []*fakeSwarm
	logged   []string
	setup    func(context.Context) error // of new swarms
	stopTime time.Duration               // that tasks of new swarms take
	stuck    bool                        // tasks of new swarms ignore their end
	opts     Options
	cancel   context.CancelFunc
	ended    chan struct{}
	totals   Totals
	err      error
}

// sent is a message of the worker and the time since the begin of the test.
type sent struct {
	after time.Duration
	kind  string
	from  string // an earlier name of the worker
	data  map[string]any
}

// fakeLink connects the worker with a fakeMaster.
type fakeLink struct {
	master *fakeMaster
	name   string // of the worker
	in     chan received
	broken error // sending fails with it
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	sent   []sent
}

func (l *fakeLink) send(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	frame, err := m.encode("worker-1")
	if err != nil {
		return err
	}
	got, err := decodeMessage(frame)
	if err != nil {
		return err
	}
	s := sent{after: time.Since(l.master.begin), kind: got.kind, from: m.from}
	if _, isText := m.data.(string); !isText && m.data != nil {
		decoder := msgpack.NewDecoder(bytes.NewReader(got.raw))
		decoder.SetMapDecoder(decodeMap)
		data, err := decoder.DecodeInterface()
		if err != nil {
			return err
		}
		s.data = data.(map[string]any)
	}
	l.sent = append(l.sent, s)
	return nil
}

// decodeMap decodes maps with texts as keys to map[string]any, and others to
// map[any]any.
func decodeMap(d *msgpack.Decoder) (any, error) {
	all, err := d.DecodeUntypedMap()
	if err != nil {
		return nil, err
	}
	texts := map[string]any{}
	for key, value := range all {
		text, ok := key.(string)
		if !ok {
			return all, nil
		}
		texts[text] = value
	}
	return texts, nil
}

func (l *fakeLink) receive() (message, error) {
	select {
	case r := <-l.in:
		return r.message, r.err
	case <-l.closed:
		return message{}, errors.New("closed")
	}
}

func (l *fakeLink) close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// start runs a worker in the bubble of the test.
func start(t *testing.T, change func(*fakeMaster)) *fakeMaster {
	t.Helper()
	m := &fakeMaster{T: t, begin: time.Now(), ended: make(chan struct{})}
	m.opts = Options{
		ID: "worker-1", Scenario: "simple", Classes: []string{"A", "B"},
		Log:  func(text string) { m.logged = append(m.logged, text) },
		dial: m.dial,
	}
	if change != nil {
		change(m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.cancel = cancel
	go func() {
		defer close(m.ended)
		m.totals, m.err = Work(ctx, "master", m.open, &m.opts)
	}()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		<-m.ended
	})
	return m
}

func (m *fakeMaster) dial(_ context.Context, name string) (link, error) {
	if m.refuse.Load() {
		return nil, errors.New("refused")
	}
	l := &fakeLink{master: m, name: name, in: make(chan received), closed: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = append(m.links, l)
	return l, nil
}

func (m *fakeMaster) open(test Test) (Swarm, error) {
	s := &fakeSwarm{Test: test, users: map[string]int{}, setup: m.setup, stopTime: m.stopTime, stuck: m.stuck}
	m.swarms = append(m.swarms, s)
	return s, nil
}

// link returns the newest connection.
func (m *fakeMaster) link() *fakeLink {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[len(m.links)-1]
}

// awaitLink waits for another connection.
func (m *fakeMaster) awaitLink() {
	for before := m.link(); m.link() == before; {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
}

// swarm returns the newest swarm.
func (m *fakeMaster) swarm() *fakeSwarm {
	m.Helper()
	if len(m.swarms) == 0 {
		m.Fatal("there is no swarm")
	}
	return m.swarms[len(m.swarms)-1]
}

// say sends a message to the worker and waits until it has handled it.
func (m *fakeMaster) say(kind string, data any) {
	m.Helper()
	raw, err := msgpack.Marshal(data)
	if err != nil {
		m.Fatal(err)
	}
	m.deliver(received{message: message{kind: kind, raw: raw}})
}

func (m *fakeMaster) deliver(r received) {
	m.Helper()
	select {
	case m.link().in <- r:
	case <-m.link().closed:
		m.Fatalf("the worker has closed the connection before %q", r.kind)
	}
	synctest.Wait()
}

// spawn orders users.
func (m *fakeMaster) spawn(timestamp float64, a, b int) {
	m.Helper()
	m.say(msgSpawn, map[string]any{
		"timestamp": timestamp, "user_classes_count": map[string]int{"A": a, "B": b}, "host": nil, "stop_timeout": nil,
		"parsed_options": map[string]any{"reset_stats": false, "web_login": "hunter2"},
	})
}

// live answers heartbeats for a while.
func (m *fakeMaster) live(d time.Duration) {
	m.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end)))
		synctest.Wait()
		m.say(msgHeartbeat, nil)
	}
}

// take returns what the worker sent since the last call, without heartbeats and
// reports unless they are asked for.
func (m *fakeMaster) take(with ...string) []sent {
	l := m.link()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(l.sent), func(s sent) bool {
		return (s.kind == msgHeartbeat || s.kind == msgStats) && !slices.Contains(with, s.kind)
	})
	l.sent = nil
	return all
}

func (m *fakeMaster) wantKinds(want ...string) []sent {
	m.Helper()
	got := m.take()
	m.compareKinds(got, want)
	return got
}

func (m *fakeMaster) wantAll(want ...string) []sent {
	m.Helper()
	got := m.take(msgHeartbeat, msgStats)
	m.compareKinds(got, want)
	return got
}

func (m *fakeMaster) compareKinds(got []sent, want []string) {
	m.Helper()
	kinds := make([]string, 0, len(got))
	for _, s := range got {
		kinds = append(kinds, s.kind)
	}
	if !slices.Equal(kinds, want) {
		m.Fatalf("the worker sent %q, want %q", kinds, want)
	}
}

// fakeSwarm counts what a worker does with it.
type fakeSwarm struct {
	Test
	mu       sync.Mutex
	users    map[string]int
	calls    []string
	setup    func(context.Context) error
	stopTime time.Duration
	stuck    bool
	tearing  error
}

func (s *fakeSwarm) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *fakeSwarm) noted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.calls)
}

func (s *fakeSwarm) Setup(ctx context.Context) error {
	s.note("setup")
	if s.setup != nil {
		return s.setup(ctx)
	}
	return nil
}

func (s *fakeSwarm) Teardown(context.Context) error {
	s.note("teardown")
	return s.tearing
}

func (s *fakeSwarm) Scale(counts map[string]int) error {
	s.note("A=%d B=%d", counts["A"], counts["B"])
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.users, counts)
	return nil
}

func (s *fakeSwarm) Users() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.users)
}

// Stop waits for tasks that take stopTime, or until ctx ends. A last event is
// recorded at their end.
func (s *fakeSwarm) Stop(ctx context.Context) error {
	if s.stuck {
		time.Sleep(s.stopTime)
		ctx = context.WithoutCancel(ctx)
	}
	if s.stopTime == 0 {
		s.happen(nil)
		s.note("stopped")
		return nil
	}
	select {
	case <-time.After(s.stopTime):
		s.happen(nil)
		s.note("stopped")
		return nil
	case <-ctx.Done():
		s.note("cancelled")
		return ctx.Err()
	}
}

// happen records an event of 12 ms.
func (s *fakeSwarm) happen(err error) {
	s.Record(loadtest.Event{
		Type: loadtest.Acquire, Name: "api", At: time.Now(), Latency: 12 * time.Millisecond, Err: err,
	})
}
