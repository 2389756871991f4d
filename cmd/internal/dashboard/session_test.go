package dashboard

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestATokenWorksOnce(t *testing.T) {
	r := newRig(t, Options{})
	w := r.send(request{path: "/api/session", body: `{"token":"` + testToken + `"}`})
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "works once") {
		t.Errorf("second use: %d %s", w.Code, w.Body)
	}
	r.want(200, "/api/info", "") // and the first session stays
}

func TestAWrongTokenDoesNotSpendTheRightOne(t *testing.T) {
	r := newRig(t, Options{Token: "right"})
	for _, body := range []string{`{"token":"wrong"}`, `{"token":""}`, `{}`} {
		if w := r.send(request{path: "/api/session", body: body}); w.Code != http.StatusUnauthorized ||
			len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d %v", body, w.Code, w.Header())
		}
	}
	fresh := newRig(t, Options{Token: "right"}) // its rig logs in
	fresh.want(200, "/api/info", "")
}

func TestOneOfManyGetsTheToken(t *testing.T) {
	h, err := New(&Options{Token: "once", Open: newRig(t, Options{}).opts.Open})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	opened := 0
	for range 20 {
		wg.Go(func() {
			if _, _, err := h.sessions.create("once", true); err == nil {
				mu.Lock()
				opened++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if opened != 1 {
		t.Errorf("%d sessions were opened", opened)
	}
}

// placePattern matches the path of a session.
var placePattern = regexp.MustCompile(`^/s/[\w-]{22}/$`)

func TestCookieIsBoundToThePage(t *testing.T) {
	r := newRig(t, Options{Authenticate: func(string) (Session, bool) {
		return Session{Name: "ann", Role: RoleRead}, true
	}})
	login := request{method: http.MethodPost, path: "/api/session", body: `{"token":"t"}`}
	cookie := r.send(login).Result().Cookies()[0]
	if cookie.Name != "zael-9236" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode ||
		!placePattern.MatchString(cookie.Path) || cookie.Secure || cookie.MaxAge != 0 {
		t.Errorf("cookie: %v", cookie)
	}
	login.header = map[string]string{"Origin": "https://127.0.0.1:9236"}
	if cookie = r.send(login).Result().Cookies()[0]; !cookie.Secure {
		t.Errorf("behind TLS: %v", cookie)
	}
	mounted := login.http()
	mounted.RequestURI = "/ops/dashboard/api/session"
	if got := mountPoint(mounted); got != "/ops/dashboard/" {
		t.Errorf("mount point: %q", got)
	}
	for _, odd := range []string{"/x;Path=/api/session", "http://[::1/api/session", "*", "/elsewhere"} {
		mounted.RequestURI = odd
		if got := mountPoint(mounted); got != "/" {
			t.Errorf("mount point of %q: %q", odd, got)
		}
	}
}

func TestASessionIDIsNeverTheClients(t *testing.T) {
	r := newRig(t, Options{Token: "t1"})
	planted := &http.Cookie{Name: "zael-9236", Value: "planted"}
	if w := r.send(request{path: "/api/info", cookie: planted}); w.Code != http.StatusUnauthorized {
		t.Errorf("planted cookie: %d", w.Code)
	}
	all := newRig(t, Options{Authenticate: func(token string) (Session, bool) {
		return Session{Name: "ann", Role: RoleRead}, token == "t"
	}})
	first := all.login("t")
	w := all.send(request{path: "/api/session", body: `{"token":"t"}`, cookie: first})
	second := w.Result().Cookies()[0]
	if second.Value == first.Value {
		t.Error("the cookie stays the same over a login")
	}
	all.wantOf(401, request{path: "/api/info", cookie: first})
	all.wantOf(200, request{path: "/api/info", cookie: second})
}

func TestASessionEnds(t *testing.T) {
	r := newRig(t, Options{})
	if w := r.send(request{
		path: "/api/session", method: http.MethodDelete, cookie: r.cookie,
	}); w.Code != http.StatusNoContent || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", w.Code, w.Header())
	}
	r.want(401, "/api/info", "")
	if w := r.send(request{
		path: "/api/session", method: http.MethodDelete,
	}); w.Code != http.StatusNoContent || len(w.Result().Cookies()) > 0 {
		t.Errorf("logout without a session: %d %v", w.Code, w.Header())
	}
}

func TestAnIdleSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		time.Sleep(idleSession - time.Second)
		r.want(200, "/api/info", "")
		time.Sleep(idleSession - time.Second)
		r.want(200, "/api/info", "")
		time.Sleep(idleSession + time.Second)
		r.want(401, "/api/info", "")
		r.ok(r.Close())
	})
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, Options{Authenticate: func(token string) (Session, bool) {
		return Session{Name: token, Role: RoleRead}, token != ""
	}})
	first := r.login("ann")
	for range maxSessionsEach {
		r.login("ann")
	}
	r.wantOf(401, request{path: "/api/info", cookie: first}) // its own newer sessions replaced it
	for i := range maxSessions - maxSessionsEach {
		r.login(fmt.Sprintf("bob-%d", i))
	}
	r.wantOf(503, request{path: "/api/session", body: `{"token":"carl"}`})
	if len(r.sessions.open) != maxSessions {
		t.Errorf("%d sessions", len(r.sessions.open))
	}
}

func TestRolesAndRevocation(t *testing.T) {
	var mu sync.Mutex
	tokens := map[string]Session{
		"r": {Name: "reader", Role: RoleRead}, "a": {Name: "admin", Role: RoleAdmin},
		"q": {Name: "gateway", Role: "acquire"}, "n": {Name: "none"},
	}
	set := func(token string, s Session) {
		mu.Lock()
		defer mu.Unlock()
		tokens[token] = s
	}
	r := newRig(t, Options{Write: true, Authenticate: func(token string) (Session, bool) {
		mu.Lock()
		defer mu.Unlock()
		s, ok := tokens[token]
		return s, ok && s.Name != ""
	}})
	for _, token := range []string{"q", "n"} {
		r.wantOf(403, request{path: "/api/session", body: `{"token":"` + token + `"}`})
	}
	reader, admin := r.login("r"), r.login("a")
	const change = `{"action":"create_entity","entity":"new"}`
	r.wantOf(200, request{path: "/api/overview", cookie: reader})
	r.wantOf(200, request{path: "/api/preview", body: change, cookie: reader})
	r.wantOf(403, request{path: "/api/change", body: change, cookie: reader})
	r.wantOf(401, request{path: "/api/change", body: change})
	r.wantOf(200, request{path: "/api/change", body: change, cookie: admin})
	for event, err := range r.lim.AuditEvents(t.Context(), "new", "") {
		if err != nil || event.Principal != "admin" {
			t.Errorf("audit: %v %v", event, err)
		}
	}
	set("a", Session{Name: "admin", Role: RoleRead}) // the session does not outlive the role
	r.wantOf(401, request{path: "/api/info", cookie: admin})
	set("r", Session{})
	r.wantOf(401, request{path: "/api/info", cookie: reader})
	set("r", Session{Name: "reader", Role: RoleRead})
	r.wantOf(401, request{path: "/api/info", cookie: reader}) // and does not come back
}

func TestWithoutWriteNothingChanges(t *testing.T) {
	r := newRig(t, Options{})
	if detail := r.want(
		403, "/api/change", `{"action":"create_entity","entity":"new"}`,
	)["detail"]; !strings.Contains(fmt.Sprint(detail), "changes none") {
		t.Errorf("detail: %v", detail)
	}
	if _, err := r.lim.Entity(t.Context(), "new"); err == nil {
		t.Error("the entity was created")
	}
}

func TestWithoutLogin(t *testing.T) {
	r := newRig(t, Options{Demo: map[string]any{"chat": "x"}, Authenticate: func(bearer string) (Session, bool) {
		return Session{Name: "demo", Role: RoleAdmin}, bearer == ""
	}})
	info := r.wantOf(200, request{path: "/api/info"})
	if info["kind"] != "demo" || info["principal"] != "demo" {
		t.Errorf("info: %v", info)
	}
	r.wantOf(403, request{path: "/api/info", header: map[string]string{"Origin": "http://evil.example"}})
}

func TestTokensSeeTheirNamespace(t *testing.T) {
	r := newRig(t, Options{Write: true, Authenticate: func(token string) (Session, bool) {
		return Session{Name: token, Role: RoleAdmin, Namespace: token}, token != ""
	}})
	_, err := r.lim.RegisterNamespaces(t.Context(), "one", "two")
	r.ok(err)
	one, two := r.login("one"), r.login("two")
	r.wantOf(200, request{path: "/api/change", body: `{"action":"create_entity","entity":"secret"}`, cookie: one})
	r.wantOf(200, request{path: "/api/entity?id=secret", cookie: one})
	r.wantOf(404, request{path: "/api/entity?id=secret", cookie: two})
	if got := r.wantOf(200, request{path: "/api/info", cookie: two})["namespace"]; got != "two" {
		t.Errorf("namespace: %v", got)
	}
	if detail := r.wantOf(403, request{
		path: "/api/info", cookie: r.login("three"),
	})["detail"]; !strings.Contains(fmt.Sprint(detail), "does not exist") {
		t.Errorf("detail: %v", detail)
	}
	body := `{"manifest":"namespace: one\nentities: {}\n"}`
	r.wantOf(400, request{path: "/api/what-if", body: body, cookie: two})
	r.wantOf(200, request{path: "/api/what-if", body: body, cookie: one})
}

func TestANamespaceThatIsRegisteredAgainIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Namespace: "team", Now: time.Now})
		register := func() limiter.Repository {
			_, err := r.lim.RegisterNamespaces(t.Context(), "team")
			r.ok(err)
			view, err := r.repo.Namespace(t.Context(), "team")
			r.ok(err)
			return view
		}
		view := register()
		lim, err := limiter.New(view, nil)
		r.ok(err)
		_, err = lim.CreateEntity(t.Context(), limiter.Entity{ID: "old"})
		r.ok(err)
		r.want(200, "/api/entity?id=old", "")
		for _, path := range []string{
			"/api/entity?id=old", "/api/overview", "/api/info", "/api/stream", "/api/resources",
		} {
			r.want(200, "/api/info", "")
			time.Sleep(time.Second) // what was read of the namespace is old
			r.ok(r.lim.DeleteNamespace(t.Context(), "team"))
			r.want(403, path, "")
			register()
		}
		r.ok(r.lim.DeleteNamespace(t.Context(), "team"))
		time.Sleep(recheck + time.Second)
		r.want(403, "/api/entity?id=old", "")
		register()
		r.want(404, "/api/entity?id=old", "")
		r.ok(r.Close())
	})
}
