package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A browser sends the cookies of a host to all of its ports. The cookie of a session
// goes to the path of the session alone, which no other page knows.
func TestOtherPortsGetNoCookie(t *testing.T) {
	r := newRig(t, Options{})
	fresh, err := New(&Options{Token: "another", Open: r.opts.Open})
	r.ok(err)
	defer fresh.Close()
	own := httptest.NewServer(http.StripPrefix("/ops", fresh))
	defer own.Close()
	var stolen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Cookie") != "" {
			stolen = append(stolen, q.URL.Path)
		}
	}))
	defer other.Close()
	jar, err := cookiejar.New(nil)
	r.ok(err)
	client := &http.Client{Jar: jar}
	ask := func(method, at, body string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
		r.ok(err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Sec-Fetch-Site", "same-origin")
		res, err := client.Do(q)
		r.ok(err)
		defer res.Body.Close()
		var answer struct{ Path string }
		_ = json.NewDecoder(res.Body).Decode(&answer)
		return res.StatusCode, answer.Path
	}
	status, path := ask(http.MethodPost, own.URL+"/ops/api/session", `{"token":"another","link":true}`)
	if status != http.StatusOK || !placePattern.MatchString("/"+path) {
		t.Fatalf("login: %d %q", status, path)
	}
	for at, want := range map[string]int{
		"/ops/" + path: 200, "/ops/" + path + "app.js": 200, "/ops/" + path + "api/info": 200,
		"/ops/api/info": 401, "/ops/": 200,
	} {
		if got, _ := ask(http.MethodGet, own.URL+at, ""); got != want {
			t.Errorf("%s: status %d, want %d", at, got, want)
		}
	}
	for _, at := range []string{
		"/", "/ops/", "/ops/api/info", "/s/", "/ops/s/", "/ops/s/" + strings.Repeat("x", 22) + "/",
	} {
		ask(http.MethodGet, other.URL+at, "")
	}
	if stolen != nil {
		t.Errorf("another port gets the cookie at %q", stolen)
	}
	if ask(http.MethodGet, other.URL+"/ops/"+path, ""); len(stolen) != 1 { // the jar is like a browser
		t.Error("the test cannot fail")
	}
	u, _ := url.Parse(own.URL + "/ops/" + path)
	if status, _ := ask(
		http.MethodDelete, own.URL+"/ops/"+path+"api/session", "",
	); status != 204 || len(jar.Cookies(u)) != 0 {
		t.Errorf("logout: %d, %v", status, jar.Cookies(u))
	}
}

func TestACookieCountsAtItsPathAlone(t *testing.T) {
	r := newRig(t, Options{Authenticate: func(token string) (Session, bool) {
		return Session{Name: token, Role: RoleRead}, token != ""
	}})
	ann, bob := r.login("ann"), r.login("bob")
	for name, at := range map[string]string{
		"the mount point": "", "another session": bob.Path, "no session": "/s/" + strings.Repeat("x", 22) + "/",
	} {
		moved := *ann
		moved.Path = at
		if w := r.send(request{path: "/api/info", cookie: &moved}); w.Code != http.StatusUnauthorized {
			t.Errorf("at %s: %d", name, w.Code)
		}
		r.send(request{path: "/api/session", method: http.MethodDelete, cookie: &moved})
	}
	for _, who := range []*http.Cookie{ann, bob} { // two tabs, one browser
		both := request{path: "/api/info", cookie: who}
		both.header = map[string]string{"Cookie": ann.Name + "=" + ann.Value + "; " + bob.Name + "=" + bob.Value}
		want := map[*http.Cookie]string{ann: "ann", bob: "bob"}[who]
		if got := r.wantOf(200, both)["principal"]; got != want {
			t.Errorf("%s sees the session of %v", want, got)
		}
	}
	for _, odd := range []string{
		"/s/", "/s/x/", "/s/" + strings.Repeat("x", 22), "/s/" + strings.Repeat("x", 21) + "!/",
		ann.Path + "s/" + strings.Repeat("x", 22) + "/",
	} {
		if w := r.send(request{path: odd}); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", odd, w.Code)
		}
	}
}

func TestALinkOpensALocalSessionOnly(t *testing.T) {
	r := newRig(t, Options{Authenticate: func(token string) (Session, bool) {
		return Session{Name: token, Role: RoleRead}, token != ""
	}})
	if w := r.send(request{
		path: "/api/session", body: `{"token":"mallory","link":true}`,
	}); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("a link with a token of another: %d %s", w.Code, w.Body)
	}
	r.login("mallory") // typed
}

func TestARevokedSessionDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var valid atomic.Bool
		valid.Store(true)
		r := newRig(t, Options{Now: time.Now, Authenticate: func(token string) (Session, bool) {
			return Session{Name: "ann", Role: RoleRead}, valid.Load() && token == "t"
		}})
		cookie := r.login("t")
		time.Sleep(time.Minute)
		r.wantOf(200, request{path: "/api/info", cookie: cookie})
		valid.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		valid.Store(true)
		r.wantOf(401, request{path: "/api/info", cookie: cookie})
		r.wantOf(200, request{path: "/api/info", cookie: r.login("t")}) // the check begins again
		valid.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(r.sessions.open); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		r.ok(r.Close())
	})
}
