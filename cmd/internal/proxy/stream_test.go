package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

const text = `data: {"choices":[{"text":"hello world!","index":0}]}` + "\n\n"

// gzipped returns an upstream that compresses its events, whatever it was asked
// for, and flushes each.
func gzipped(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		for _, e := range events {
			_, _ = io.WriteString(zip, e)
			_ = zip.Flush()
			_ = http.NewResponseController(w).Flush()
		}
		_ = zip.Close()
	}
}

// TestStreamsThatCompressAnyway checks an upstream that compresses although the
// proxy asked for a plain stream.
func TestStreamsThatCompressAnyway(t *testing.T) {
	r := newRig(t, gzipped(delta, lastUsage, done), nil)
	resp, body := r.post(chatPath, chatCall, "Accept-Encoding", "gzip")
	if got := r.lastHeader().Get("Accept-Encoding"); got != "identity" {
		t.Errorf("asked for %q", got)
	}
	if want := delta + done; body != want || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("header %v, stream\n%q\nwant\n%q", resp.Header, body, want)
	}
	r.wantUsed("m", 1, 42)

	asked := `{"stream_options":{"include_usage":true},` + chatCall[1:]
	resp, body = r.post(chatPath, asked, "Accept-Encoding", "gzip")
	if r.lastHeader().Get("Accept-Encoding") != "gzip" || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a stream without changes was asked for as %v, and came as %v", r.lastHeader(), resp.Header)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(unzipped); err != nil || string(plain) != delta+lastUsage+done {
		t.Errorf("stream %q, %v", plain, err)
	}
	r.wantUsed("m", 2, 84)
}

// TestDecompressedStreamsAreNotDelayed checks that the client has an event before
// the upstream sends the next one.
func TestDecompressedStreamsAreNotDelayed(t *testing.T) {
	next := make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		for range 3 {
			_, _ = io.WriteString(zip, delta)
			_ = zip.Flush()
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		_ = zip.Close()
	}, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+chatPath,
		strings.NewReader(chatCall))
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	resp, err := r.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len(delta))
	for range 3 {
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != delta {
			t.Fatalf("read %q, %v", event, err)
		}
		next <- true
	}
}

// TestStepCutsEveryStream checks that no format and no encoding evades the steps.
func TestStepCutsEveryStream(t *testing.T) {
	const most, events = 60, 100
	for name, tc := range map[string]struct {
		path, options, event string // an event of 3 tokens
		answer               func(...string) http.HandlerFunc
	}{
		"completions":           {"/v1/completions", ``, text, answerStream},
		"usage asked for":       {chatPath, `"stream_options":{"include_usage":true},`, delta, answerStream},
		"compressed":            {chatPath, `"stream_options":{"include_usage":true},`, delta, gzipped},
		"messages":              {"/v1/messages", ``, `data: {"delta":{"text":"hello world!"}}` + "\n\n", gzipped},
		"responses":             {"/v1/responses", ``, `data: {"delta":"hello world!"}` + "\n\n", gzipped},
		"completions, gzip too": {"/v1/completions", ``, text, gzipped},
	} {
		t.Run(name, func(t *testing.T) {
			stream := make([]string, events)
			for i := range stream {
				stream[i] = tc.event
			}
			r := newRig(t, tc.answer(stream...), func(o *Options) { o.Step = 10 })
			if err := r.lim.SetResourceDefaults(
				context.Background(), "m", limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", most),
			); err != nil {
				t.Fatal(err)
			}
			_, body := r.post(tc.path,
				`{"model":"m",`+tc.options+`"stream":true,"max_tokens":10,"max_output_tokens":10}`,
				"Accept-Encoding", "gzip")
			if got := r.lastHeader().Get("Accept-Encoding"); got != "identity" {
				t.Errorf("asked for %q", got)
			}
			if n := strings.Count(body, tc.event); n < 15 || n > 24 || !strings.Contains(body, "the answer was cut") {
				t.Errorf("%d events arrived; the stream ends with %q", n, body[max(0, len(body)-200):])
			}
			r.proxy.calls.Wait()
			left, err := r.lim.Available(context.Background(), HashKey(aliceKey), "m")
			if spent := most - left.Get("tpm"); err != nil || spent <= most-10 || spent > most+10 {
				t.Errorf("%d tokens were spent of %d, error %v", spent, most, err)
			}
		})
	}
}

func TestFinalUsageDoesNotCutAStream(t *testing.T) {
	const report = `data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":500000}}` + "\n\n"
	r := newRig(t, answerStream(delta, report, done), func(o *Options) { o.Step = 1 })
	if _, body := r.post(chatPath, chatCall); body != delta+done {
		t.Errorf("stream %q", body)
	}
	r.wantUsed("m", 1, 500_030)
	if !strings.Contains(r.log.String(), `"outcome":"served"`) {
		t.Errorf("log %s", r.log)
	}
}

// TestCutAnswersCostTheirText checks answers that end before their usage and are
// longer than the estimate.
func TestCutAnswersCostTheirText(t *testing.T) {
	long := strings.Repeat("word", 2000)
	for name, tc := range map[string]struct{ path, request, media, answer string }{
		"body": {
			chatPath, `{"model":"m","max_tokens":4}`, "application/json",
			`{"choices":[{"message":{"content":"` + long + `"}}],"usage"`,
		},
		"completions": {
			"/v1/completions", `{"model":"m","stream":true,"max_tokens":4}`, "text/event-stream",
			`data: {"choices":[{"text":"` + long + `"}]}` + "\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.media)
				_, _ = io.WriteString(w, tc.answer)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, nil)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+tc.path,
				strings.NewReader(tc.request))
			req.Header.Set("Authorization", "Bearer "+aliceKey)
			resp, err := r.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil || string(body) != tc.answer {
				t.Errorf("%d bytes arrived, %v; want %d and an error", len(body), err, len(tc.answer))
			}
			r.wantUsed("m", 1, 2000)
		})
	}
}
