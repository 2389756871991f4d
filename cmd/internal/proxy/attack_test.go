package proxy

import (
	"bufio"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/llm"
)

// send writes raw bytes to the proxy and returns its first answer.
func (r *rig) send(raw string) (reply, string) {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, raw); err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return newReply(resp), string(body)
}

const auth = "Authorization: Bearer " + aliceKey + "\r\n"

func TestTheUpstreamIsFixed(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for name, raw := range map[string]string{
		"absolute URI": "GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n" + auth + "\r\n",
		"CONNECT":      "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n" + auth + "\r\n",
		"asterisk":     "OPTIONS * HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n",
		"upgrade": "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + auth +
			"\r\n",
	} {
		if resp, body := r.send(raw); resp.StatusCode < 400 && r.calls() > 0 {
			t.Errorf("%s: status %d, %s", name, resp.StatusCode, body)
		}
	}
	if r.calls() != 0 {
		t.Fatalf("%d requests reached the upstream", r.calls())
	}
	r.send(
		"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n" + auth + "Connection: X-Hop\r\nX-Hop: " +
			"1\r\nProxy-Authorization: x\r\nX-Original-Url: /v1/chat/completions\r\nX-Http-Method-Override: " +
			"POST\r\nX_http_method_override: POST\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Method: " +
			"POST\r\nX-Forwarded-Prefix: /x\r\nX-Envoy-Original-Path: /x\r\nConnection: close\r\n\r\n",
	)
	if r.calls() != 1 {
		t.Fatalf("%d requests reached the upstream, want 1", r.calls())
	}
	if host := r.seen[0].Host; host != r.upstream.Listener.Addr().String() {
		t.Errorf("the upstream got the host %s", host)
	}
	for _, name := range []string{
		"X-Hop", "Proxy-Authorization", "X-Original-Url", "X-Http-Method-Override", "X_http_method_override",
		"X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Prefix", "X-Envoy-Original-Path",
	} {
		if _, sent := r.lastHeader()[name]; sent {
			t.Errorf("%s reached the upstream", name)
		}
	}
}

// TestPathsCannotHideACall checks that no spelling of a path makes a call of a
// model cost less.
func TestPathsCannotHideACall(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for _, path := range []string{
		"/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1/chat%252Fcompletions", "/v1//chat//completions",
		"/v1/chat//completions",
		"/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/x/%2e%2e/chat/completions",
		"/v1/chat/completions%2F", "/v1/%63hat/completions",
		`/v1/chat\completions`, "/v1/chat/completions;x=1", "/v1/chat;x/completions", "/v1/chat/completions%20",
		"/v1/chat/completions%00", "/v1/chat/completions//",
		"/v1/chat/%63ompletions", "/v1/chat/completions/.", "/v1/../../secret",
		"/v1/chat/completions%3F", "/v1/chat/completions%3fx=1", "/v1/chat/completions%23x", "/v1/files%3Fx",
		"/v1/files%23/../chat/completions", "/v1/files%253Fx",
		"/v1/files%25253Fx", "/v1/files/%2e%2e/threads", "/v1/files/%252e%252e/threads", "/v1//files",
		"/v1/files;x", "/v1/files%3Bx", `/v1/files%5C..%5Cthreads`,
		"/v1/files/%00", "/v1/files/%0d%0aX:%20y", "/v1/./files", "/v1/files/%2e",
	} {
		resp, _ := r.send(
			"POST " + path + " HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 2\r\nConnection: close\r\n\r\n{}",
		)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", path, resp.StatusCode)
		}
	}
	if r.calls() != 0 {
		t.Errorf("%d requests reached the upstream", r.calls())
	}
	for _, path := range []string{"/v1/chat/completions/", "/V1/Chat/Completions", "/v1/chat/completions?x=%2F..%2F"} {
		resp, _ := r.post(path, plainCall)
		r.wantStatus(resp, 200)
	}
	r.wantUsed("m", 3, 3*42)
}

// TestOnlyListedCallsAreForwarded checks the calls that are not about a model, and
// the sentence that their clients get.
func TestOnlyListedCallsAreForwarded(t *testing.T) {
	for _, tc := range []struct {
		base    string
		paths   []string
		call    string
		forward bool
	}{
		{"", nil, "GET /v1/models", true},
		{"/v1", nil, "GET /models", true},
		{"/openai", nil, "GET /v1/models", true},
		{"", nil, "HEAD /v1/models", false},
		{"", nil, "DELETE /v1/models", false},
		{"", nil, "POST /v1/models", false},
		{"", nil, "GET /v1/models/m", true},
		{"", nil, "GET /v1/models/ft:m", true},
		{"", nil, "GET /v1/models/owner/m", true},
		{"/v1", nil, "GET /models/m", true},
		{"/v1", nil, "GET /v1/models/m", true},
		{"", nil, "GET /V1/Models", false},
		{"", nil, "GET /v1/models-x", false},
		{"", nil, "HEAD /v1/models/m", false},
		{"", nil, "DELETE /v1/models/ft:m", false},
		{"", nil, "GET /", false},
		{"", nil, "POST /v1/images/generations", false},
		{"", nil, "POST /v1/audio/speech", false},
		{"", nil, "POST /v1/realtime/client_secrets", false},
		{"", nil, "POST /v1/threads/t/runs", false},
		{"", nil, "POST /v1/batches", false},
		{"", nil, "GET /v1/responses/r", false},
		{"", nil, "POST /api/generate", false},
		{"", nil, "DELETE /api/delete", false},
		{"", nil, "POST /v1/files", false},
		{"", nil, "POST /v1/threads/t1/messages", false},
		{"/v1", nil, "POST /threads/t1/messages", false},
		{"", nil, "POST /v1/evals/responses", false},
		{"", nil, "POST /v1/audio/completions", false},
		{"", nil, "POST /x/y/z/chat/completions", false},
		{"/x", nil, "POST /y/chat/completions", false},
		{"", []string{}, "GET /v1/models", false},
		{"", []string{"/v1/files"}, "POST /v1/files", true},
		{"", []string{"/v1/files"}, "DELETE /v1/files", true},
		{"", []string{"/v1/files"}, "GET /v1/files/f", false},
		{"", []string{"/v1/files"}, "GET /v1/models", false},
		{"", []string{"GET /v1/files*"}, "GET /v1/files/f/content", true},
		{"", []string{"GET /v1/files*"}, "DELETE /v1/files/f", false},
		{"", []string{"/v1/files/*"}, "GET /v1/files/a%2Fb%20c", true},
		{"", []string{"*"}, "DELETE /anything", true},
		{"", []string{"GET *"}, "DELETE /anything", false},
	} {
		r := newRig(t, answerJSON("{}"), func(o *Options) { o.Paths, o.Upstream.Path = tc.paths, tc.base })
		resp, body := r.send(
			tc.call + " HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 2\r\nConnection: close\r\n\r\n{}",
		)
		if forwarded := r.calls() == 1; forwarded != tc.forward || forwarded != (resp.StatusCode == http.StatusOK) {
			t.Errorf("%v, %s: status %d, forwarded %t", tc.paths, tc.call, resp.StatusCode, forwarded)
		}
		if told := strings.Contains(body, "--paths") || strings.HasPrefix(tc.call, "HEAD"); !tc.forward &&
			(resp.StatusCode != http.StatusNotFound || !told) {
			t.Errorf("%v, %s: status %d, %s", tc.paths, tc.call, resp.StatusCode, body)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for _, pattern := range []string{"*", "/", "/v1/files", "/v1/files*", "/v1/files/*", "GET /v1/files", "DELETE *"} {
		if err := CheckPath(pattern); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	for _, pattern := range []string{
		"", "v1/files", "GET", "GET ", "get /v1/files", "GET  /v1/files", "/v1/*/x", "**", "/v1/files?x",
		"/v1/%66iles", "/v1/files;x", " /v1/files", "/v1 /files",
	} {
		if err := CheckPath(pattern); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

// TestMethodsCannotHideACall checks that no spelling of a method makes a call of a
// model cost less.
func TestMethodsCannotHideACall(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	body := "Content-Length: 60\r\nConnection: close\r\n\r\n" + plainCall
	for _, target := range []string{
		"post " + chatPath, "Post " + chatPath, "QUERY " + chatPath, "PUT " + chatPath, "PATCH " + chatPath,
		"TRACE " + chatPath, "COPY " + chatPath,
		"get /v1/models", "QUERY /v1/models", "TRACE /v1/models",
	} {
		resp, _ := r.send(target + " HTTP/1.1\r\nHost: x\r\n" + auth + body)
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("%s: status %d, Allow %q", target, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
	if r.calls() != 0 {
		t.Errorf("%d requests reached the upstream", r.calls())
	}
	strict := newRig(t, answerJSON(plainChat), func(o *Options) { o.Paths = nil })
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		resp, _ := strict.send(
			method + " " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + "Connection: close\r\n\r\n",
		)
		strict.wantStatus(resp, http.StatusMethodNotAllowed)
	}
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		resp, _ := r.send(method + " " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + "Connection: close\r\n\r\n")
		r.wantStatus(resp, 200)
	}
	r.wantUsed("other", 4, 0)
	r.wantUsed("m", 0, 0)
}

// TestPathsThatNameTheModelDecide checks that the body cannot name a cheaper one.
func TestPathsThatNameTheModelDecide(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for _, path := range []string{
		"/openai/deployments/m/chat/completions?api-version=1", "/v1/engines/m/completions",
		"/openai/Deployments/m/embeddings",
	} {
		resp, body := r.post(path, `{"messages":[]}`)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s without a model: status %d, %s", path, resp.StatusCode, body)
		}
		resp, _ = r.post(path, plainCall)
		r.wantStatus(resp, 200)
		for _, other := range []string{`"other"`, `5`, `"M"`} {
			if resp, _ := r.post(path, `{"model":`+other+`}`); resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s with the model %s: status %d, want 400", path, other, resp.StatusCode)
			}
		}
	}
	if r.calls() != 6 {
		t.Errorf("%d requests reached the upstream, want 6", r.calls())
	}
	resp, body := r.post("/openai/deployments/dear/chat/completions", plainCall)
	r.wantStatus(resp, 400)
	if !strings.Contains(body, "must be the model that the path names") {
		t.Errorf("answer %s", body)
	}
}

// TestACallIsNeverRepeated checks that the transport does not send a call again
// when the upstream closes a connection after it received the call.
func TestACallIsNeverRepeated(t *testing.T) {
	for name, call := range map[string][2]string{
		"model": {chatPath, plainCall}, "other": {"/v1/batches", "x"}, "no body": {"/v1/batches/1/cancel", ""},
	} {
		t.Run(name, func(t *testing.T) {
			second := false
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				if second {
					conn, _, _ := http.NewResponseController(w).Hijack()
					_ = conn.Close()
					return
				}
				answerJSON(plainChat)(w, req)
			}, nil)
			r.post(call[0], call[1])
			second = true
			resp, _ := r.post(call[0], call[1], "Idempotency-Key", "1", "X-Idempotency-Key", "2")
			r.wantStatus(resp, 502)
			if r.calls() != 2 {
				t.Errorf("%d requests reached the upstream, want 2", r.calls())
			}
			if h := r.lastHeader(); h.Get("Idempotency-Key") != "1" || h.Get("X-Idempotency-Key") != "2" {
				t.Errorf("the upstream got %v", h)
			}
		})
	}
}

// TestNoSmuggling checks that a request with two lengths reaches the upstream as
// one request, with the body that the proxy has read.
func TestNoSmuggling(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	smuggled := "GET /v1/files HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n"
	for name, raw := range map[string]string{
		"both lengths": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3c\r\n" + plainCall + "\r\n0\r\n\r\n" +
			smuggled,
		"two lengths":  "Content-Length: 5\r\nContent-Length: 60\r\n\r\n" + plainCall,
		"odd encoding": "Transfer-Encoding: xchunked\r\nContent-Length: 60\r\n\r\n" + plainCall,
		"odd spelling": "Transfer-Encoding : chunked\r\nContent-Length: 60\r\n\r\n" + plainCall,
	} {
		before := r.calls()
		resp, _ := r.send("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + raw)
		if name != "both lengths" {
			if resp.StatusCode < 400 || r.calls() != before {
				t.Errorf("%s: status %d, %d calls", name, resp.StatusCode, r.calls()-before)
			}
			continue
		}
		if resp.StatusCode != http.StatusOK || !resp.Close || r.calls() != before+1 || r.lastBody() != plainCall {
			t.Errorf("%s: status %d, %d calls, body %q", name, resp.StatusCode, r.calls()-before, r.lastBody())
		}
	}
	r.wantUsed("m", 1, 42)
	r.wantUsed("other", 0, 0)
}

// TestNoKeyIsLogged checks the access log, the errors and the answers of good and
// bad requests for parts of the key.
func TestNoKeyIsLogged(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	var answers strings.Builder
	for _, headers := range [][]string{
		nil,
		{"X-Api-Key", aliceKey},
		{"X-Api-Key", aliceKey + "2"},
		{"Authorization", aliceKey},
		{"Authorization", "Basic " + aliceKey},
	} {
		for path, body := range map[string]string{
			chatPath + "?key=" + aliceKey: plainCall, "/v1/models?api_key=" + aliceKey: "",
			"/v1/embeddings": "{", "/v1/messages": `{"model":"unknown"}`,
		} {
			_, answer := r.post(path, body, headers...)
			answers.WriteString(answer)
		}
	}
	r.upstream.Close() // and errors of the transport
	r.post(chatPath+"?key="+aliceKey, plainCall)
	r.proxy.calls.Wait()
	for where, text := range map[string]string{
		"log": r.log.String(), "answers": answers.String(), "errors": joinErrors(r.errs),
	} {
		if strings.Contains(text, "0123456789") {
			t.Errorf("the %s show the key: %s", where, text)
		}
	}
	if n := strings.Count(r.log.String(), `"msg":"request"`); n != 21 {
		t.Errorf("%d lines in the log, want 21", n)
	}
	if !strings.Contains(r.log.String(), `"entity":"`+HashKey(aliceKey)+`"`) {
		t.Error("the log does not name the entity")
	}
}

func joinErrors(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(err.Error() + "\n")
	}
	return b.String()
}

// TestBodiesAreSentAsJSON checks that the upstream reads a body as the proxy did,
// and not as a form or in another charset.
func TestBodiesAreSentAsJSON(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for _, value := range []string{
		"application/json", "application/json; charset=utf-7", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=x", "",
	} {
		resp, _ := r.post(chatPath, plainCall, "Content-Type", value)
		r.wantStatus(resp, http.StatusOK)
		if got := r.lastHeader().Values("Content-Type"); len(got) != 1 || got[0] != "application/json" {
			t.Errorf("%q became %q", value, got)
		}
	}
}

// TestAVersionIsSentOnce checks upstreams as people copy them from the settings of
// SDKs, with clients that have the version in their base URL or not.
func TestAVersionIsSentOnce(t *testing.T) {
	for _, tc := range []struct{ base, path, want string }{
		{"/v1", "/v1/models", "/v1/models"},
		{"/v1/", "/v1/models", "/v1/models"},
		{"/v1", "/models", "/v1/models"},
		{"/v1", chatPath, chatPath},
		{"/v1", "/chat/completions", chatPath},
		{"/v1", "/v1", "/v1"},
		{"/v1", "/v10/models", "/v1/v10/models"},
		{"/v1", "/v1beta/models", "/v1/v1beta/models"},
		{"/v1beta", "/v1beta/models", "/v1beta/models"},
		{"/openai/v1", chatPath, "/openai" + chatPath},
		{"/openai/v1", "/openai" + chatPath, "/openai" + chatPath},
		{"/account-1/openai/v1", "/openai" + chatPath, "/account-1/openai" + chatPath},
		{"/account-1/openai/v1", chatPath, "/account-1/openai" + chatPath},
		{"/account-1/openai", chatPath, "/account-1/openai" + chatPath},
		// Without a version at its end, a prefix is right as it is.
		{"/openai", "/openai/deployments/m/chat/completions", "/openai/openai/deployments/m/chat/completions"},
		{"/v1/projects", "/v1/projects/p", "/v1/projects/v1/projects/p"},
	} {
		r := newRig(t, answerJSON("{}"), func(o *Options) { o.Upstream.Path = tc.base })
		if resp, body := r.post(tc.path, plainCall); resp.StatusCode != http.StatusOK {
			t.Errorf("%s below %s: status %d, %s", tc.path, tc.base, resp.StatusCode, body)
			continue
		}
		if got := r.lastPath(); got != tc.want {
			t.Errorf("%s below %s went to %s, want %s", tc.path, tc.base, got, tc.want)
		}
	}
}

// TestConnectionRemovesNothingOfTheProxy checks that a client cannot remove what the
// proxy says about a call, by naming the header in Connection.
func TestConnectionRemovesNothingOfTheProxy(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for _, tc := range []struct {
		body    string
		headers []string
		name    string
		want    string
	}{
		{plainCall, nil, "Content-Type", "application/json"},
		{plainCall, []string{"Accept-Encoding", "br, gzip"}, "Accept-Encoding", "identity"},
		{chatCall, []string{"Accept-Encoding", "gzip"}, "Accept-Encoding", "identity"},
		{
			string(zip(t, gzip.BestSpeed, plainCall)),
			[]string{"Content-Encoding", "gzip"},
			"Content-Encoding", "gzip",
		},
	} {
		resp, _ := r.post(chatPath, tc.body, append(tc.headers, "Connection", "close, "+tc.name)...)
		r.wantStatus(resp, http.StatusOK)
		if got := r.lastHeader().Values(tc.name); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s became %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestCallsBelowThePathOfTheUpstream checks that the operator may put any path
// before the calls.
func TestCallsBelowThePathOfTheUpstream(t *testing.T) {
	for _, tc := range []struct {
		base, path string
		want       llm.Format
	}{
		{"", "/v1/chat/completions", llm.Chat},
		{"/gateway/account/openai", "/chat/completions", llm.Chat},
		{"/gateway/account/openai/", "/v1/responses", llm.Responses},
		{"/v1/chat", "/completions", llm.Chat},
		{"/v1/projects/p/endpoints/openapi", "/chat/completions", llm.Chat},
		{"/gateway", "/account/chat/completions", ""},
		{"/gateway", "/v1/threads/t/messages", ""},
	} {
		if got, ok := formatOf(tc.base, tc.path); got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s of %s: %q, want %q", tc.path, tc.base, got, tc.want)
		}
	}
}
