package programs_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/race"
)

// victim is the program as a proxy with its defaults, in front of an upstream that
// answers at once.
type victim struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func newVictim(t *testing.T, flags ...string) *victim {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":30,"completion_tokens":12}}`)
	}))
	t.Cleanup(upstream.Close)
	flags = append(
		[]string{
			"proxy", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--store", "memory:", "-l",
			"rpm:100000",
		},
		flags...,
	)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, "zae-limiter", flags...)
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	for messages := bufio.NewScanner(talk); messages.Scan(); {
		if _, at, ok := strings.Cut(messages.Text(), " on http"); ok {
			go func() { _, _ = io.Copy(io.Discard, talk) }()
			return &victim{t, cmd, "http" + at}
		}
	}
	t.Fatal("it does not listen")
	return nil
}

// post sends a body with a key, and returns the status of the answer.
func (v *victim) post(path, key, encoding string, body []byte) int {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url+path, bytes.NewReader(body))
	if err != nil {
		v.t.Error(err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Encoding", encoding)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestHalfSentRequestsLeaveRoom opens more requests than the proxy has places,
// with two keys and with many, and sends a part of each.
func TestHalfSentRequestsLeaveRoom(t *testing.T) {
	v := newVictim(t, "--new-entities", "5000", "--paths", "/v1/files")
	address := strings.TrimPrefix(v.url, "http://")
	for i := range 1200 {
		key, path := i, "/v1/files"
		if i%2 == 0 {
			key = i % 4 // two keys have half of the requests
		}
		if i%10 == 0 {
			path = "/v1/chat/completions"
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, err = fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: sk-%d\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
			path, key)
		if err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(conn).ReadString('\n') // when the proxy begins to read, or refuses
		if _, err = io.WriteString(conn, "x"); err != nil && strings.Contains(line, "100 Continue") {
			t.Fatal(err)
		}
	}
	for range 20 {
		if status := v.post("/v1/chat/completions", "sk-0", "", []byte(`{"model":"m"}`)); status != http.StatusOK {
			t.Fatalf("status %d with half-sent requests under way, want 200", status)
		}
		if status := v.post("/v1/files", "sk-new", "", []byte(`x`)); status != http.StatusOK {
			t.Fatalf("status %d with half-sent requests under way, want 200", status)
		}
	}
}

// TestSmallRequestsNeedLittleMemory sends twelve requests at a time that are small
// in gzip and large in memory, and looks at the memory of the program.
func TestSmallRequestsNeedLittleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	const size, parallel = 4 << 20, 12
	v := newVictim(t, "--max-body", fmt.Sprint(size))
	fill := func(start, part, end string) string {
		return start + strings.Repeat(part, (size-len(start)-len(end))/len(part)) + end
	}
	for name, text := range map[string]string{
		"numbers": fill(`{"model":"m","prompt":[""`, ",1", "]}"),
		"fields":  fill(`{"model":"m"`, `,"ab":1`, "}"),
		"deep":    fill(`{"model":"m","x":`, "[", ""),
		"too big": fill("", "x", "") + "x",
	} {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		var all sync.WaitGroup
		for i := range parallel {
			all.Go(func() {
				status := v.post("/v1/completions", fmt.Sprintf("sk-%d", i), "gzip", zipped.Bytes())
				// New clients share the memory of sixteen bodies, and a body takes
				// twice its size while its parts are joined. If all arrive there
				// at once, some are refused.
				if !slices.Contains(
					[]int{
						http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusOK,
						http.StatusServiceUnavailable,
					},
					status,
				) {
					t.Errorf("%s: status %d", name, status)
				}
			})
		}
		all.Wait()
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int
	if _, err := fmt.Sscan(peak, &kilobytes); err != nil {
		t.Fatal(err)
	}
	const base = 100 << 10 // of the program itself
	t.Logf("peak %d MiB", kilobytes>>10)
	most := base + parallel*4*size>>10
	if race.Enabled {
		most *= 4 // which keeps a shadow of the memory
	}
	if kilobytes > most {
		t.Errorf("the program needed %d KiB, want at most %d", kilobytes, most)
	}
}
