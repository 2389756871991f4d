package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// dial opens a connection, and writes raw bytes to the proxy.
func (r *rig) dial(raw string) net.Conn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, raw); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// TestIdleBodiesHoldNoRoom checks that clients that announce a large body, and send
// nothing, do not keep others out.
func TestIdleBodiesHoldNoRoom(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.MaxBody, o.MaxRequests = 1<<20, 2 })
	for _, length := range []string{"Content-Length: 1048576", "Transfer-Encoding: chunked", "Content-Encoding: gzip\r\nContent-Length: 1048576"} {
		for range 30 {
			conn := r.dial("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + length + "\r\nExpect: 100-continue\r\n\r\n")
			line, err := bufio.NewReader(conn).ReadString('\n') // sent when the proxy begins to read
			if err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatalf("%q, %v", line, err)
			}
		}
	}
	if n := r.proxy.bodies.inUse(); n > 90*firstBuffer {
		t.Errorf("%d bytes are held for bodies that have not arrived", n)
	}
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, 200)
}

// TestSentBodiesAreDropped checks that a large body leaves memory when the
// upstream has it, however long the answer takes.
func TestSentBodiesAreDropped(t *testing.T) {
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, req *http.Request) {
		for range 5000 { // the transport notes it a moment after the last byte
			if r.proxy.bodies.inUse() == 0 {
				break
			}
			runtime.Gosched()
			time.Sleep(time.Millisecond)
		}
		if n := r.proxy.bodies.inUse(); n != 0 {
			t.Errorf("%d bytes are held after the body was sent", n)
		}
		answerJSON(plainChat)(w, req)
	}, nil)
	large := `{"model":"m","user":"` + strings.Repeat("x", 1<<20) + `"}`
	resp, _ := r.post(chatPath, large)
	r.wantStatus(resp, 200)
	if r.lastBody() != large {
		t.Error("the body was changed")
	}
}

// TestPlacesAreShared checks that one client cannot take all places, that probes
// need none, and that a full proxy says so.
func TestPlacesAreShared(t *testing.T) {
	arrived, block := make(chan bool), make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		arrived <- true
		<-block
		answerJSON(plainChat)(w, req)
	}, func(o *Options) { o.MaxRequests = 2 })
	hold := func(key string) {
		r.dial("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + key + "\r\n\r\n")
		<-arrived
	}
	hold(aliceKey)
	resp, body := r.post(chatPath, plainCall)
	r.wantStatus(resp, 429)
	if resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, "of this client") {
		t.Errorf("answer %v %s", resp.Header, body)
	}
	hold("sk-bob")
	resp, _ = r.post(chatPath, plainCall, "Authorization", "Bearer sk-carol")
	r.wantStatus(resp, 503)
	if !strings.Contains(resp.Header.Get("Content-Type"), "problem+json") || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("answer %v", resp.Header)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+path, http.NoBody)
		resp, _ := r.do(req)
		r.wantStatus(resp, 204)
	}
	close(block)
	r.proxy.calls.Wait()
	if n := strings.Count(r.log.String(), `"outcome":"busy"`); n != 2 {
		t.Errorf("%d busy lines in the log, want 2: %s", n, r.log)
	}
	if n := r.proxy.places.inUse(); n != 0 || len(r.proxy.places.by) != 0 {
		t.Errorf("%d places are taken at the end", n)
	}
	if len(r.errs) != 0 {
		t.Errorf("errors for the operator: %v", r.errs)
	}
}

// TestSlowBodiesEnd checks the deadlines of a body that is passed on.
func TestSlowBodiesEnd(t *testing.T) {
	b := &passedBody{started: noon}
	for _, tc := range []struct {
		bytes     int64
		now, want time.Duration
	}{
		{0, 0, time.Minute},
		{50, 50 * time.Second, time.Minute},                                 // trickles
		{10 << 20, time.Second, time.Minute + time.Second},                  // moves
		{1 << 30, time.Hour, time.Hour + time.Minute},                       // moves for long
		{60 * bodyRate, 100 * time.Second, 2 * time.Minute},                 // the slowest that may go on
		{60 * bodyRate, 5 * time.Minute, 2 * time.Minute},                   // too late
		{3600 * bodyRate, time.Hour + time.Second, time.Hour + time.Minute}, // as slow, for long
	} {
		b.bytes = tc.bytes
		if got := b.deadline(noon.Add(tc.now)).Sub(noon); got != tc.want {
			t.Errorf("after %v and %d bytes the deadline is %v, want %v", tc.now, tc.bytes, got, tc.want)
		}
	}
}

// TestRefusedBodiesGetTheirAnswer checks that a client that sends its whole body
// before it reads gets the refusal.
func TestRefusedBodiesGetTheirAnswer(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.MaxBody = 1 << 10 })
	for name, raw := range map[string]string{
		"length": "Content-Length: 8388608\r\n\r\n" + strings.Repeat("x", 8<<20),
		"chunks": "Transfer-Encoding: chunked\r\n\r\n800000\r\n" + strings.Repeat("x", 8<<20) + "\r\n0\r\n\r\n",
	} {
		resp, _ := r.send("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + raw)
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d, want 413", name, resp.StatusCode)
		}
	}
}
