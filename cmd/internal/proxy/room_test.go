package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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
	for _, length := range []string{
		"Content-Length: 1048576", "Transfer-Encoding: chunked",
		"Content-Encoding: gzip\r\nContent-Length: 1048576",
	} {
		for range 30 {
			conn := r.dial(
				"POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + length + "\r\nExpect: 100-continue\r\n\r\n",
			)
			line, err := bufio.NewReader(conn).ReadString('\n') // sent when the proxy begins to read
			if err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatalf("%q, %v", line, err)
			}
		}
	}
	if n := inUse(r.proxy.bodies); n > 90*firstBuffer {
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
			if inUse(r.proxy.bodies) == 0 {
				break
			}
			runtime.Gosched()
			time.Sleep(time.Millisecond)
		}
		if n := inUse(r.proxy.bodies); n != 0 {
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
	}, func(o *Options) { o.MaxRequests, o.Identify = 2, byKey })
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
	if n := inUse(r.proxy.places); n != 0 || r.proxy.places.Holders() != 0 {
		t.Errorf("%d places are taken at the end", n)
	}
	if len(r.errs) != 0 {
		t.Errorf("errors for the operator: %v", r.errs)
	}
}

// TestNewClientsSharePlaces checks that a client with many invented keys holds no
// more than a part of the places, until the upstream accepts its keys.
func TestNewClientsSharePlaces(t *testing.T) {
	arrived, block := make(chan bool), make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Api-Key") != "" { // invented
			arrived <- true
			<-block
		}
		answerJSON(plainChat)(w, req)
	}, func(o *Options) { o.MaxRequests = 16 })
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, 200)
	r.proxy.calls.Wait() // its place is free again
	for i := range 4 {
		r.dial("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Api-Key: sk-" + string(rune('a'+i)) + "\r\n\r\n")
		<-arrived
	}
	resp, body := r.post(chatPath, plainCall, "Authorization", "Bearer sk-z")
	r.wantStatus(resp, 503)
	if !strings.Contains(body, "of new clients") {
		t.Errorf("answer %s", body)
	}
	resp, _ = r.post(chatPath, plainCall)
	r.wantStatus(resp, 200) // accepted before
	close(block)
	r.proxy.calls.Wait()
	if n := r.proxy.places.Held(r.proxy.places.newcomers); n != 0 {
		t.Errorf("%d places are taken at the end", n)
	}
	resp, _ = r.post(chatPath, plainCall, "Authorization", "Bearer sk-z")
	r.wantStatus(resp, 200)
}

// TestHalfSentBodiesHoldNoPlace checks that clients that send a part of a body, of
// whatever call and with whatever key, keep no other client out.
func TestHalfSentBodiesHoldNoPlace(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.MaxRequests = 16 })
	large := strings.Repeat("x", startBytes)
	const expect = "Expect: 100-continue\r\n\r\n"
	for i := range 40 {
		key := "X-Api-Key: sk-" + string(rune('a'+i%20)) + "\r\n"
		for _, half := range [][2]string{
			{"POST /v1/files HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 2097152\r\n", "x"},
			{"POST /v1/files HTTP/1.1\r\nHost: x\r\n" + key + "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n"},
			{"POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 60\r\n", "{"},
		} {
			conn := r.dial(half[0] + expect)
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil ||
				!strings.Contains(line, "100 Continue") {
				t.Fatalf("%q, %v", line, err)
			}
			_, _ = io.WriteString(conn, half[1])
		}
	}
	if n := inUse(r.proxy.places); n != 0 || r.calls() != 0 {
		t.Errorf("%d places are taken, and %d calls reached the upstream", n, r.calls())
	}
	for i := range 20 { // these have sent enough to be passed on
		r.dial(
			"POST /v1/files HTTP/1.1\r\nHost: x\r\nX-Api-Key: sk-" + string(rune('a'+i)) +
				"\r\nContent-Length: 2097152\r\n\r\n" + large,
		)
	}
	for range 5 {
		resp, _ := r.post(chatPath, plainCall)
		r.wantStatus(resp, 200)
		resp, _ = r.post("/v1/files", "short")
		r.wantStatus(resp, 200)
	}
	if n := inUse(r.proxy.places); n > 16/4 {
		t.Errorf("%d of 16 places are taken by bodies that have not arrived", n)
	}
}

// TestUploadsPass checks bodies around the size from which they are passed on as
// they arrive.
func TestUploadsPass(t *testing.T) {
	r := newRig(t, answerJSON("{}"), nil)
	for _, size := range []int{0, 1, startBytes - 1, startBytes, startBytes + 1, 3 << 20} {
		body := strings.Repeat("x", size)
		for _, length := range []int64{int64(size), -1} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/v1/files",
				io.NopCloser(strings.NewReader(body)))
			req.ContentLength = length
			req.Header.Set("X-Api-Key", aliceKey)
			resp, _ := r.do(req)
			r.wantStatus(resp, 200)
			if r.lastBody() != body {
				t.Errorf("a body of %d bytes reached the upstream with %d", size, len(r.lastBody()))
			}
		}
	}
	r.proxy.calls.Wait()
	if places, uploads, bytes := inUse(r.proxy.places), inUse(r.proxy.uploads), inUse(r.proxy.bodies); places != 0 ||
		uploads != 0 || bytes != 0 {
		t.Errorf("%d places, %d uploads and %d bytes are held at the end", places, uploads, bytes)
	}
	r.wantUsed("other", 12, 0)
}

// slowBody is a body that stops after its start.
type slowBody struct{ start *strings.Reader }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.start.Len() > 0 {
		return b.start.Read(p)
	}
	return 0, os.ErrDeadlineExceeded
}

// TestSlowBodiesAreCut checks the answer to a body that does not arrive in time.
func TestSlowBodiesAreCut(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for path, start := range map[string]string{
		chatPath: "{", "/v1/files": "x", "/v1/uploads": strings.Repeat("x", 2*startBytes),
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, &slowBody{strings.NewReader(start)})
		req.ContentLength = 1 << 20
		req.Header.Set("X-Api-Key", aliceKey)
		r.proxy.ServeHTTP(w, req)
		if w.Code != http.StatusRequestTimeout || w.Header().Get("Connection") != "close" ||
			!strings.Contains(w.Body.String(), "too slowly") {
			t.Errorf("%s: status %d, %v, %s", path, w.Code, w.Header(), w.Body)
		}
	}
	if n := strings.Count(r.log.String(), `"outcome":"slow"`); n != 3 {
		t.Errorf("%d slow lines in the log, want 3: %s", n, r.log)
	}
	r.wantUsed("other", 0, 0)
}

// TestSlowBodiesEnd checks the deadlines of a body.
func TestSlowBodiesEnd(t *testing.T) {
	a := &arriving{started: noon}
	for _, tc := range []struct {
		passes    bool
		bytes     int64
		now, want time.Duration
	}{
		{true, 0, 0, bodyTimeout},
		{true, 50, 9 * time.Second, bodyTimeout},                                  // trickles
		{true, 10 << 20, time.Second, bodyTimeout + time.Second},                  // moves
		{true, 1 << 30, time.Hour, time.Hour + bodyTimeout},                       // moves for long
		{true, 60 * bodyRate, 65 * time.Second, time.Minute + bodyTimeout},        // the slowest that may go on
		{true, 60 * bodyRate, 5 * time.Minute, time.Minute + bodyTimeout},         // too late
		{true, 3600 * bodyRate, time.Hour + time.Second, time.Hour + bodyTimeout}, // as slow, for long
		{false, 0, 0, bodyTimeout},
		{false, 10 << 20, 40 * time.Second, 50 * time.Second},
		{false, 10 << 20, 55 * time.Second, keptTimeout}, // memory is held for a minute at most
	} {
		a.passes, a.bytes = tc.passes, tc.bytes
		if got := a.deadline(noon.Add(tc.now)).Sub(noon); got != tc.want {
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
