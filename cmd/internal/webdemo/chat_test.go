package webdemo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
)

func TestChatAnswersAsOpenAIDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		begun := time.Now()
		w := d.do("POST", chatPath, hello, "Authorization", "bearer key-alice")
		c := parse[completion](t, w)
		if w.Code != http.StatusOK || c.Object != "chat.completion" || c.Model != modelLarge || c.Created == 0 ||
			len(c.Choices) != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if !regexp.MustCompile(`^chatcmpl-[0-9a-f]{12}$`).MatchString(c.ID) {
			t.Errorf("the ID is %q", c.ID)
		}
		if words := len(
			strings.Fields(c.Choices[0].Message.Content),
		); words != 25 || c.Choices[0].Message.Role != "assistant" {
			t.Errorf("%d words of %q", words, c.Choices[0].Message.Role)
		}
		if u := c.Usage; u.Prompt != 10 || u.Completion < 45 || u.Completion > 50 || u.Total != u.Prompt+u.Completion {
			t.Errorf("usage %+v", u)
		}
		if took := time.Since(begun); took < 105*time.Millisecond || took > 155*time.Millisecond {
			t.Errorf("the answer took %v", took)
		}
		if got := w.Header().Get("RateLimit"); !strings.HasPrefix(got, `"rpm";r=29;`) {
			t.Errorf("RateLimit is %q", got)
		}
		if diff := cmp.Diff(
			map[string]int64{"rpm": 1, "tpm": c.Usage.Total}, d.used("key-alice", modelLarge),
		); diff != "" {
			t.Errorf("charged: %s", diff)
		}
	})
}

func TestChatRejectsBadInput(t *testing.T) {
	d := newDemo(t, nil)
	for _, c := range []struct {
		key, body string
		status    int
		want      string
	}{
		{"key-missing", hello, 401, "the API key is missing or unknown"},
		{"<script>", hello, 401, "the API key is missing or unknown"},
		{
			"key-alice", `{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}`, 404,
			"the models are gpt-4 and gpt-3.5-turbo",
		},
		{"key-alice", `{"messages":[{"role":"user","content":"Hi"}]}`, 400, "model"},
		{"key-alice", `{"model":"gpt-4"}`, 400, "messages"},
		{"key-alice", `{"model":"gpt-4","messages":"Hello"}`, 400, "messages"},
		{"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"n":2}`, 400, "must be 1"},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"max_tokens":"many"}`,
			400, "max_tokens",
		},
		{"key-alice", `{"model":"gpt-4","messages":[]}`, 400, "at least one message"},
		{"key-alice", `{"model":"gpt-4","messages":[{"content":"Hi"}]}`, 400, "messages[0]"},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"},{"role":"user"}]}`, 400,
			"messages[1]",
		},
		{"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":1}]}`, 400, "a role and a content"},
		{"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"max_tokens":0}`, 400, "1 or more"},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"max_tokens":-5}`, 400,
			"max_tokens",
		},
		{
			"key-alice",
			`{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":-5}`, 400,
			"max_completion_tokens",
		},
		{"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"n":0}`, 400, "must be 1"},
		{"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"n":-1}`, 400, "must be 1"},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"temperature":"hot"}`,
			400, "from 0 to 2",
		},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"temperature":2.5}`, 400,
			"from 0 to 2",
		},
		{
			"key-alice", `{"model":"gpt-4","messages":[{"role":"user","content":"Hi"}],"temperature":-0.1}`,
			400, "from 0 to 2",
		},
		{"key-alice", `{`, 400, ""},
		{"key-alice", `{"model":"gpt-4","messages":["` + strings.Repeat("x", maxBody) + `"]}`, 413, ""},
	} {
		w := d.chat(c.key, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%.60s: %d %s, want %d with %s", c.body, w.Code, w.Body, c.status, c.want)
		}
		if c.status == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Error("a 401 has no WWW-Authenticate")
		}
	}
	if got := d.used("key-alice", ""); len(got) > 0 {
		t.Errorf("bad input was charged %v", got)
	}
}

func TestRefusalHasBodyAndFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		w := d.chat("key-bob", hello)
		for w.Code == http.StatusOK {
			w = d.chat("key-bob", hello)
		}
		body := parse[refusalJSON](t, w)
		if w.Code != http.StatusTooManyRequests || body.Error != "rate_limit_exceeded" || !(body.Seconds > 0) ||
			body.Millis != int64(body.Seconds*1000+0.5) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var exceeded []string
		for _, l := range body.Limits {
			if l.Exceeded {
				exceeded = append(exceeded, l.Entity+" "+l.Limit)
			}
		}
		if diff := cmp.Diff([]string{"key-bob rpm"}, exceeded); diff != "" {
			t.Error(diff)
		}
		if len(body.Limits) != 5 {
			t.Errorf("%d limits, want those of the key and of its project", len(body.Limits))
		}
		if got := w.Header(); got.Get("Retry-After") == "" || got.Get("RateLimit") == "" ||
			got.Get("RateLimit-Policy") == "" {
			t.Errorf("fields %v", got)
		}
		time.Sleep(time.Duration(body.Millis) * time.Millisecond)
		if w := d.chat("key-bob", hello); w.Code != http.StatusOK {
			t.Errorf("after the wait: %d %s", w.Code, w.Body)
		}
	})
}

// A call that may use more than a limit holds is refused for good. One that is
// admitted leaves no debt.
func TestNoCallPassesALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		ask := func(most string) *httptest.ResponseRecorder {
			return d.chat("key-charlie", strings.Replace(hello, `"max_tokens":50`, `"max_tokens":`+most, 1))
		}
		for _, most := range []string{"1991", "3000", "4000", "9000"} {
			w := ask(most)
			body := parse[refusalJSON](t, w)
			if w.Code != http.StatusTooManyRequests || !body.NeverFits ||
				!strings.Contains(body.Message, "Never fits: ") || w.Header().Get("Retry-After") != "" {
				t.Errorf("%s tokens: %d %v %s", most, w.Code, w.Header(), w.Body)
			}
		}
		if w := ask("1990"); w.Code != http.StatusOK {
			t.Errorf("all of the limit: %d %s", w.Code, w.Body)
		}
		for range defaultRequests {
			ask("1")
		}
		balances, err := d.lim.Explain(d.Context(), limiter.Request{Entity: "key-charlie", Resource: modelLarge})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range balances.Statuses {
			if s.Available < 0 {
				t.Errorf("%s has debt: %+v", s.Entity, s)
			}
		}
	})
}

// The first page shows calls of the address that it was asked at.
func TestIndexShowsItsAddress(t *testing.T) {
	d := newDemo(t, nil)
	page := d.do("GET", "/", "", "Host", "localhost:9123").Body.String()
	if strings.Count(page, "http://localhost:9123") != 2 || strings.Contains(page, "8080") {
		t.Error(page)
	}
}

// However many keys call at once, exactly what the limits allow is admitted, and
// what the answers report is what the buckets paid.
func TestAdmittedIsWhatLimitsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		var mu sync.Mutex
		admitted, tokens := map[string]int64{}, map[string]int64{}
		var calls sync.WaitGroup
		for range 60 {
			for _, key := range []string{"key-alice", "key-bob", "key-charlie"} {
				calls.Go(func() {
					if w := d.chat(key, hello); w.Code == http.StatusOK {
						used := parse[completion](t, w).Usage.Total
						mu.Lock()
						defer mu.Unlock()
						admitted[key]++
						tokens[key] += used
					}
				})
			}
		}
		calls.Wait()
		most := map[string]int64{"key-alice": 30, "key-bob": 10, "key-charlie": 20}
		var requests, total int64
		for key, n := range admitted {
			if n > most[key] {
				t.Errorf("%s: %d admitted, of %d", key, n, most[key])
			}
			if diff := cmp.Diff(map[string]int64{"rpm": n, "tpm": tokens[key]}, d.used(key, modelLarge)); diff != "" {
				t.Errorf("%s paid: %s", key, diff)
			}
			requests, total = requests+n, total+tokens[key]
		}
		if requests != 50 {
			t.Errorf("%d admitted, want the 50 of the project", requests)
		}
		if diff := cmp.Diff(
			map[string]int64{"rpm": 50, "tpm": total, "spend": 50*10*30 + (total-50*10)*60},
			d.used("proj-demo", modelLarge),
		); diff != "" {
			t.Errorf("the project paid: %s", diff)
		}
	})
}

// chunks parses the events of a stream.
func chunks(t *testing.T, body string) (all []chunk, done bool) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatalf("event %q", event)
		}
		if done = data == "[DONE]"; done {
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all, done
}

func TestStreamReportsItsUsage(t *testing.T) {
	for name, options := range map[string]string{
		"last chunk": "", "chunk of its own": `,"stream_options":{"include_usage":true}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDemo(t, nil)
			w := d.chat("key-alice", strings.TrimSuffix(hello, "}")+`,"stream":true`+options+"}")
			all, done := chunks(t, w.Body.String())
			if w.Header().Get("Content-Type") != "text/event-stream" || !done {
				t.Fatalf("%s: %v %s", name, w.Header(), w.Body)
			}
			text := ""
			for _, c := range all[:len(all)-1] {
				if c.Usage != nil || len(c.Choices) != 1 || c.ID != all[0].ID {
					t.Errorf("%s: chunk %+v", name, c)
				}
				text += c.Choices[0].Delta.Content
			}
			if got := len(strings.Fields(text)); got != 25 || all[0].Choices[0].Delta.Role != "assistant" {
				t.Errorf("%s: %d words: %s", name, got, text)
			}
			last := all[len(all)-1]
			if own := len(last.Choices) == 0; own != (options != "") || last.Usage == nil {
				t.Fatalf("%s: last chunk %+v", name, last)
			}
			if diff := cmp.Diff(
				map[string]int64{"rpm": 1, "tpm": last.Usage.Total}, d.used("key-alice", modelLarge),
			); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		})
	}
}

// leaving is a client that leaves after some events.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
	after int
}

func (l *leaving) Write(p []byte) (int, error) {
	if l.after--; l.after < 0 {
		l.leave()
	}
	return l.ResponseRecorder.Write(p)
}

func TestClientThatLeavesPaysForWhatItGot(t *testing.T) {
	stream := strings.TrimSuffix(hello, "}") + `,"stream":true}`
	for _, c := range []struct {
		name, body string
		after      int
		at         time.Duration
		tokens     func(words int) bool
	}{
		{"during a stream", stream, 10, time.Hour, func(n int) bool { return n > 10+10 && n < 10+30 }},
		{"before a stream", stream, 0, 50 * time.Millisecond, func(n int) bool { return n == 0 }},
		{"before an answer", hello, 0, 50 * time.Millisecond, func(n int) bool { return n == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDemo(t, nil)
				ctx, leave := context.WithTimeout(t.Context(), c.at)
				defer leave()
				w := &leaving{httptest.NewRecorder(), leave, c.after}
				d.ServeHTTP(w, request(ctx, "POST", chatPath, c.body, "X-API-Key", "key-bob"))
				used := d.used("key-bob", modelLarge)
				if !c.tokens(int(used[limiter.TPM])) {
					t.Errorf("charged %v for %s", used, w.Body)
				}
				if used[limiter.TPM] > 0 {
					used[llm.Spend] = 10*30 + (used[limiter.TPM]-10)*60
				}
				if project := d.used("proj-demo", modelLarge); !cmp.Equal(used, project) {
					t.Errorf("the key paid %v, its project %v", used, project)
				}
			})
		})
	}
}

// The same seed gives the same answers, within the bounds of a request.
func TestSimulator(t *testing.T) {
	one, two := newSimulator(1), newSimulator(1)
	for _, most := range []int64{1, 2, 11, 100, 4000} {
		for range 20 {
			a, b := one.draw(modelSmall, most), two.draw(modelSmall, most)
			if !cmp.Equal(a, b, cmp.AllowUnexported(simulated{})) {
				t.Fatalf("%+v, then %+v", a, b)
			}
			if a.tokens < minTokens || a.tokens > max(minTokens, most) || a.tokens < most*9/10 ||
				len(a.words) != max(1, int(most/2)) {
				t.Errorf("at most %d: %d tokens in %d words", most, a.tokens, len(a.words))
			}
			if least := 50*time.Millisecond + time.Duration(most)*100*time.Microsecond; a.latency() < least ||
				a.latency() > least+50*time.Millisecond {
				t.Errorf("at most %d: %v", most, a.latency())
			}
		}
	}
}
