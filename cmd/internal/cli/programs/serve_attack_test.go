package programs_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// dial connects to an address of the server, for at most a minute.
func (s *served) dial(url string) *net.TCPConn {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.TCPConn)
}

// rawAcquire returns an acquire in the form of the wire.
func rawAcquire(entity, fields string) string {
	body := fmt.Sprintf(`{"entity_id":%q,"resource":"gpt-4","consume":{"rpd":200}%s}`, entity, fields)
	return fmt.Sprintf(
		"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
			"%d\r\n\r\n%s",
		len(body), body,
	)
}

// Clients that close their sending side at once get whole answers, and no more of
// them than the limit allows.
func TestServeHalfClosed(t *testing.T) {
	s := startServe(t, serveStore(t), "--listen", "127.0.0.1:0")
	for _, fields := range []string{"", `,"commit":true`} {
		var mu sync.Mutex
		var all sync.WaitGroup
		statuses := map[int]int{}
		for range 60 {
			conn := s.dial(s.URL)
			all.Go(func() {
				_, _ = io.WriteString(conn, rawAcquire(fmt.Sprint("key-", len(fields)), fields))
				_ = conn.CloseWrite()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil || len(body) == 0 || int64(len(body)) != resp.ContentLength {
					t.Errorf("status %d with %d of %d bytes, %v", resp.StatusCode, len(body), resp.ContentLength, err)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[resp.StatusCode]++
			})
		}
		all.Wait()
		if statuses[http.StatusOK] != 5 || statuses[http.StatusTooManyRequests] != 55 {
			t.Errorf("with %q: statuses %v, want 5 of 200 and 55 of 429", fields, statuses)
		}
	}
}

// h2 is a client of HTTP/2 that sends what a test wants.
type h2 struct {
	t      *testing.T
	framer *http2.Framer
	mu     sync.Mutex
	change *sync.Cond
	room   map[uint32]int    // window of each stream, and of the connection as 0
	start  int               // window of a new stream
	ended  map[uint32]string // how the server ended a stream: its gRPC status, or ""
	lost   error
}

// dialH2 connects to an address without TLS.
func (s *served) dialH2(url string) *h2 {
	s.t.Helper()
	conn := s.dial(url)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	const window = 65535
	c := &h2{
		t: s.t, framer: http2.NewFramer(conn, conn), room: map[uint32]int{0: window}, start: window,
		ended: map[uint32]string{},
	}
	c.change = sync.NewCond(&c.mu)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.framer.WriteSettings(); err != nil {
		s.t.Fatal(err)
	}
	go c.listen()
	return c
}

// listen keeps account of what the server allows.
func (c *h2) listen() {
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.lost = err
			c.change.Broadcast()
			c.mu.Unlock()
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range c.room {
					if id != 0 {
						c.room[id] += int(size) - c.start
					}
				}
				c.start = int(size)
			}
		case *http2.WindowUpdateFrame:
			c.room[f.StreamID] += int(f.Increment)
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				c.ended[f.StreamID] = ""
				for _, field := range f.Fields {
					if field.Name == "grpc-status" {
						c.ended[f.StreamID] = field.Value
					}
				}
			}
		case *http2.RSTStreamFrame:
			if _, known := c.ended[f.StreamID]; !known {
				c.ended[f.StreamID] = ""
			}
		}
		c.change.Broadcast()
		c.mu.Unlock()
	}
}

// call opens a stream for a gRPC call.
func (c *h2) call(id uint32, method, token string) {
	c.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "localhost"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}
	if token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + token})
	}
	for _, f := range fields {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.mu.Lock()
	c.room[id] = c.start
	c.mu.Unlock()
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
	}); err != nil {
		c.t.Fatal(err)
	}
}

// fill sends the messages of streams, a frame of each in turn, as the server
// allows. It returns when every stream was sent or ended.
func (c *h2) fill(message []byte, frame int, ids ...uint32) (ended []uint32) {
	c.t.Helper()
	sent := map[uint32]int{}
	for {
		open, moved := 0, false
		for _, id := range ids {
			c.mu.Lock()
			_, over := c.ended[id]
			n := min(frame, len(message)-sent[id], c.room[id], c.room[0])
			if n > 0 && !over {
				c.room[id] -= n
				c.room[0] -= n
			}
			c.mu.Unlock()
			if over || sent[id] == len(message) {
				continue
			}
			open++
			if n <= 0 {
				continue
			}
			if err := c.framer.WriteData(id, false, message[sent[id]:sent[id]+n]); err != nil {
				c.t.Fatal(err)
			}
			sent[id] += n
			moved = true
		}
		if open == 0 {
			break
		}
		if !moved {
			c.await(func() bool {
				return slices.ContainsFunc(ids, func(id uint32) bool {
					_, over := c.ended[id]
					return sent[id] < len(message) && (over || c.room[id] > 0 && c.room[0] > 0)
				})
			})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if _, over := c.ended[id]; over {
			ended = append(ended, id)
		}
	}
	return ended
}

// await waits until a condition holds.
func (c *h2) await(holds func() bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !holds() {
		if c.lost != nil {
			c.t.Fatalf("the connection is lost: %v", c.lost)
		}
		c.change.Wait()
	}
}

// memory returns the largest memory that the program has had, in MiB.
func (s *served) memory() int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Skip("the memory of a process cannot be read here")
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		s.t.Skip("the memory of a process cannot be read here")
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib >> 10
}

const (
	judgeMethod  = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	healthMethod = "/grpc.health.v1.Health/Check"
)

// startEnvoy starts the program with Envoy's service and one token.
func startEnvoy(t *testing.T, args ...string) (s *served, grpc, token string) {
	t.Helper()
	store, dir := serveStore(t), t.TempDir()
	tokens := dashboardTokens(t, dir+"/tokens.yaml", [3]string{"envoy", "acquire", "default"})
	rules := "rules: [{match: {key: \"*\"}, entity: \"{key}\", resource: gpt-4, consume: {rpd: hits}}]\n"
	if err := os.WriteFile(dir+"/rules.yaml", []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, store,
		append(args, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--rules", dir+"/rules.yaml",
			"--tokens", dir+"/tokens.yaml")...)
	return s, regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.await("rate limit service")), tokens["envoy"]
}

// Streams whose messages lack their last byte hold no memory of a stranger, and a
// bounded amount of a known caller. The server judges other calls meanwhile.
func TestServeUnfinishedMessages(t *testing.T) {
	const size, streams = 16<<20 - 5, 60
	message := make([]byte, size)
	message[0] = 0
	binary.BigEndian.PutUint32(message[1:], size-5+1)
	for _, test := range []struct {
		name, method  string
		known         bool
		frame, growth int
	}{
		{"a stranger", judgeMethod, false, 16 << 10, 40},
		{"a probe", healthMethod, false, 16 << 10, 40},
		{"a known caller", judgeMethod, true, 16 << 10, 300},
		{"small frames", judgeMethod, true, 1, 300},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, grpc, token := startEnvoy(t)
			if !test.known {
				token = ""
			}
			before := s.memory()
			client := s.dialH2(grpc)
			var ids []uint32
			for i := range streams {
				ids = append(ids, uint32(2*i+1))
				client.call(ids[i], test.method, token)
			}
			ended := client.fill(message, test.frame, ids...)
			if least := streams - 4; len(ended) < least {
				t.Errorf("%d of %d streams were ended, want at least %d", len(ended), streams, least)
			}
			grown := s.memory() - before
			t.Logf("%d streams ended, the memory grew by %d MiB", len(ended), grown)
			if grown > test.growth {
				t.Errorf("the memory grew by %d MiB, want at most %d", grown, test.growth)
			}
			other := s.dialH2(grpc)
			other.call(1, healthMethod, "")
			other.fill(make([]byte, 5), 5, 1)
			other.await(func() bool { return other.ended[1] == "0" })
			if code, said := s.stop(); code != kit.ExitDone {
				t.Errorf("code %d: %s", code, said)
			}
		})
	}
}
