package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/llm"
)

// zip compresses a text.
func zip(t *testing.T, level int, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestACallNeedsFourTimesItsBody checks the memory that a call takes until it asks
// a limit, and the memory that the proxy counts for it.
func TestACallNeedsFourTimesItsBody(t *testing.T) {
	const size = 2 << 20
	r := newRig(t, answerJSON(plainChat), nil)
	fill := func(start, part, end string) string {
		return start + strings.Repeat(part, (size-len(start)-len(end))/len(part)) + end
	}
	bodies := map[string]string{
		"numbers":  fill(`{"model":"m","prompt":[""`, ",1", "]}"),
		"fields":   fill(`{"model":"m"`, `,"abcdef":1`, "}"),
		"messages": fill(`{"model":"m","stream":true,"messages":[{"a":1`, `,"a":1`, "}]}"),
		"text":     fill(`{"model":"m","stream":true,"messages":"`, "hello wo", `"}`),
	}
	for name, text := range bodies {
		for how, sent := range map[string][]byte{
			"plain": []byte(text), "chunked": []byte(text), "small gzip": zip(t, gzip.BestCompression, text),
			"large gzip":  zip(t, gzip.NoCompression, text),
			"two members": append(zip(t, gzip.BestSpeed, text[:size/2]), zip(t, gzip.BestSpeed, text[size/2:])...),
		} {
			for _, path := range []string{chatPath, "/v1/completions"} {
				used, held := measure(t, r.proxy, path, how, sent)
				if used > 4*uint64(len(text)) {
					t.Errorf("%s, %s, %s: %d bytes, %.1f times the body", name, how, path, used,
						float64(used)/float64(len(text)))
				}
				if name != "fields" && (held < int64(min(len(sent), len(text))) ||
					held > int64(max(len(sent), len(text)))+largestBuffer) {
					t.Errorf("%s, %s, %s: %d bytes are counted for %d sent and %d decompressed", name, how, path,
						held, len(sent), len(text))
				}
			}
		}
	}
}

// measure returns the memory that a call allocates, and what the proxy counts at
// its end.
func measure(t *testing.T, p *Proxy, path, how string, sent []byte) (used uint64, held int64) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, io.NopCloser(bytes.NewReader(sent)))
	if req.ContentLength = int64(len(sent)); how == "chunked" {
		req.ContentLength = -1
	}
	if strings.Contains(how, "gzip") || how == "two members" {
		req.Header.Set("Content-Encoding", "gzip")
	}
	c := &call{proxy: p}
	c.hold.pool, c.hold.client = p.bodies, client{entity: "x"}
	c.arrive(httptest.NewRecorder(), req)
	defer c.leave()
	format, _ := llm.FormatOf(path)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = c.inspect(req, subject{call: true, format: format})
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, inUse(p.bodies)
}
