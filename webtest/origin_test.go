package webtest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// foreign serves an empty page of another origin.
func foreign(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stolen := r.Header.Get("Cookie"); stolen != "" { // browsers send cookies to all ports of a host
			t.Errorf("%s of another port gets the cookie %s", r.URL.Path, stolen)
		}
		writePage(w, "<p>evil</p>")
	}))
	t.Cleanup(s.Close)
	return s
}

// attack is a try of a page to reach the dashboard. Its function gets the origin
// of the dashboard and a change as JSON, and returns what it could read, or "".
type attack struct{ name, function string }

var attacks = []attack{
	{
		"fetch",
		`async (at) => { try { return await (await fetch(at + "/api/overview", { credentials: "include" })).text() } catch { return "" } }`,
	},
	{
		"fetch without CORS",
		`async (at) => { try { return await (await fetch(at + "/api/overview", { mode: "no-cors", credentials: "include" })).text() } catch { return "" } }`,
	},
	{
		"post JSON",
		`async (at, change) => { try { return await (await fetch(at + "/api/change", { method: "POST", credentials: "include", headers: { "Content-Type": "application/json" }, body: change })).text() } catch { return "" } }`,
	},
	{
		"post text without CORS",
		`async (at, change) => { try { await fetch(at + "/api/change", { method: "POST", mode: "no-cors", credentials: "include", body: change }) } catch { } return "" }`,
	},
	{
		"beacon",
		`async (at, change) => { navigator.sendBeacon(at + "/api/change", new Blob([change], { type: "text/plain" })); return "" }`,
	},
	{"form", `(at, change) => new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.name = "sink";
		document.body.append(frame);
		const form = document.createElement("form");
		Object.assign(form, { action: at + "/api/change", method: "post", enctype: "text/plain", target: "sink" });
		const field = document.createElement("input");
		Object.assign(field, { name: change.slice(0, -1) + ',"x":"', value: '"}' });
		form.append(field);
		document.body.append(form);
		frame.onload = () => done("");
		form.submit();
	})`},
	{"frame", `(at) => new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.onload = () => { try { done(frame.contentDocument?.body?.innerText ?? "") } catch { done("") } };
		frame.src = at + "/";
		document.body.append(frame);
	})`},
	{"stream", `(at) => new Promise((done) => {
		const source = new EventSource(at + "/api/stream", { withCredentials: true });
		source.addEventListener("hello", (e) => { source.close(); done(e.data) });
		source.onmessage = (e) => { source.close(); done(e.data) };
		source.onerror = () => { source.close(); done("") };
	})`},
	{"image", `(at) => new Promise((done) => {
		const image = new Image();
		image.onload = () => done("an image");
		image.onerror = () => done("");
		image.src = at + "/api/overview";
	})`},
	{"script", `(at) => new Promise((done) => {
		const script = document.createElement("script");
		script.onload = () => done("a script");
		script.onerror = () => done("");
		script.src = at + "/texts.js";
		document.head.append(script);
	})`},
	{"style", `(at) => new Promise((done) => {
		const link = document.createElement("link");
		link.rel = "stylesheet";
		link.onload = () => done("a style");
		link.onerror = () => done("");
		link.href = at + "/style.css";
		document.head.append(link);
	})`},
	{
		"window",
		`async (at) => { const w = open(at + "/"); for (let i = 0; i < 20; i++) { try { if (w.document.body?.innerText) return w.document.body.innerText } catch { break } await new Promise((d) => setTimeout(d, 20)) } w?.close(); return "" }`,
	},
}

// evilChange is what the attacks try to store.
const evilChange = `{"action":"set_limits","entity":"","resource":"gpt-4","limits":[{"name":"rpm","capacity":666,"refill_amount":666,"refill_period_seconds":60}]}`

// TestOtherOrigin opens pages of other origins in the browser session of an
// administrator. They can neither read nor write. In the demo and in serve without
// tokens, every request of the browser has the role, and only its origin tells it
// apart.
func TestOtherOrigin(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, *store) *program{
		"dashboard": func(t *testing.T, s *store) *program { t.Helper(); return dashboard(t, s, "--write") },
		"serve":     func(t *testing.T, s *store) *program { t.Helper(); return serve(t, s) },
		"demo": func(t *testing.T, _ *store) *program {
			t.Helper()
			return start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser", "--store", "memory:")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.limits("", "", fixed("rpm", 100))
			s.use("secret-key", "gpt-4", limiter.Tokens("rpm", 1))
			attackProgram(t, run(t, s), name != "serve")
		})
	}
}

func attackProgram(t *testing.T, p *program, writes bool) {
	t.Helper()
	b := newTab(t)
	b.expect(".") // the browser reports each refused try
	b.visit(p)
	if writes {
		own := eval[int](b,
			`async (change) => (await fetch("api/preview", { method: "POST", headers: { "Content-Type": "application/json" }, body: change })).status`,
			evilChange)
		if own != http.StatusOK {
			t.Fatalf("the page itself may not make the change: status %d", own)
		}
	}
	base := strings.TrimSuffix(eval[string](b, `() => location.origin + location.pathname`), "/")
	evil := foreign(t)
	local := strings.Replace(evil.URL, "127.0.0.1", "localhost", 1) // not the same site
	for _, page := range []string{evil.URL, local} {
		b.allow(strings.TrimPrefix(page, "http://"))
		for _, a := range attacks {
			b.open(page)
			if read := eval[string](b, a.function, base, evilChange); read != "" {
				t.Errorf("%s of %s read %q", a.name, page, read)
			}
		}
	}
	if !slices.Contains(b.sent(), "POST "+base+"/api/change") {
		t.Error("no attack was sent, so the test proves nothing")
	}
	b.open(base + "/")
	b.awaitLive() // the session of the administrator is as it was
	stored := eval[string](b, `async () => (await fetch("api/resource?name=gpt-4")).text()`)
	if !strings.Contains(stored, `"resource":"gpt-4"`) || strings.Contains(stored, "666") {
		t.Errorf("after the attacks the resource is %s", stored)
	}
}

// TestDemoTraffic tries to pause the demo from another origin.
func TestDemoTraffic(t *testing.T) {
	t.Parallel()
	p := start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser", "--store", "memory:")
	b := newTab(t)
	b.expect(".")
	evil := foreign(t)
	b.allow(p.host(), strings.TrimPrefix(evil.URL, "http://"))
	b.open(evil.URL)
	eval[bool](b, `async (at) => {
		for (const type of ["text/plain", "application/json"]) {
			for (const mode of ["no-cors", "cors"]) {
				try { await fetch(at + "/api/traffic", { method: "POST", mode, credentials: "include", headers: { "Content-Type": type }, body: '{"paused":true}' }) } catch { }
			}
		}
		return true;
	}`, p.origin())
	b.open(p.URL)
	b.await("running traffic", `() => Boolean(control("button", "Pause"))`)
}

// TestRebinding opens the dashboard by a name that resolves to its address, as an
// attacker's name can. The page then has the same origin as the server, and the
// browser stops nothing.
func TestRebinding(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	p := dashboard(t, s, "--write")
	_, port, _ := strings.Cut(p.host(), ":")
	rebound := reboundHost + ":" + port
	b := newTab(t)
	b.allow(rebound)
	b.expect(`status of 4\d\d|Cross-Origin-Opener-Policy`) // a page by this name is refused as a whole
	b.open("http://" + rebound + "/")
	statuses := eval[[]int](b, `async (token, change) => {
		const post = (path, body) => fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
		const answers = [await fetch("/"), await fetch("/api/info"), await fetch("/api/overview"), await post("/api/session", JSON.stringify({ token })), await post("/api/change", change)];
		return answers.map((a) => a.status);
	}`, p.token(), evilChange)
	for i, status := range statuses {
		if status != http.StatusMisdirectedRequest && status != http.StatusForbidden {
			t.Errorf("request %d has status %d", i, status)
		}
	}
	s.unchanged("gpt-4")
	own := newTab(t)
	own.visit(p) // the token is not spent
}

// unchanged checks that a resource has no defaults.
func (s *store) unchanged(resource string) {
	s.t.Helper()
	limits, err := s.lim.ResourceDefaults(s.t.Context(), resource)
	s.must(err)
	if len(limits) > 0 {
		s.t.Errorf("%s has the limits %v", resource, limits)
	}
}
