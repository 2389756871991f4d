package dashboard

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// sessionPrefix begins the paths of sessions. Browsers send a cookie to every port
// of a host, but only to its path. So each session has a random path of its own,
// which programs on other ports cannot know.
const sessionPrefix = "/s/"

type placeKey struct{}

// placeOf returns the place of the session in the path of a request, or "" at the
// mount point.
func placeOf(r *http.Request) string {
	place, _ := r.Context().Value(placeKey{}).(string)
	return place
}

// enterPlace removes the path of a session from a request, and remembers it. It
// returns nil if the path names no session.
func enterPlace(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.Path, sessionPrefix)
	if !ok {
		return r
	}

	place, rest, ok := strings.Cut(rest, "/")
	// A path that newSecret cannot have made gets 404 instead of a page that
	// will never find its session.
	if !ok || len(place) != len(newSecret(placeBytes)) || strings.Trim(place, secretAlphabet) != "" {
		return nil
	}

	inside := r.WithContext(context.WithValue(r.Context(), placeKey{}, place))
	// WithContext shares the URL with the request of the caller, which must
	// keep its own.
	at := *r.URL
	at.Path, at.RawPath = "/"+rest, ""
	inside.URL = &at

	return inside
}

// cookieName returns the name of the cookie. It has the port, so that two
// dashboards on a host are easy to tell apart.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	// The port comes from the client, and the name of a cookie cannot hold every
	// character.
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = "0"
	}

	return "zael-" + port
}

// newCookie returns a cookie for the path of a session.
func newCookie(r *http.Request, place, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: mountPoint(r) + placePath(place), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
}

// placePath returns the path of a session below the mount point.
func placePath(place string) string { return sessionPrefix[1:] + place + "/" }

// mountPoint returns the path at which the browser sees the handler, of a request
// for api/session.
func mountPoint(r *http.Request) string {
	// http.StripPrefix leaves RequestURI as the browser sent it.
	seen, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return "/"
	}

	suffix := "api/session"
	if place := placeOf(r); place != "" {
		suffix = placePath(place) + suffix
	}

	mount, ok := strings.CutSuffix(seen.Path, suffix)
	// The attribute Path of a cookie cannot hold these characters.
	if !ok || !strings.HasPrefix(mount, "/") || strings.ContainsAny(mount, "; ,\\\"") {
		return "/"
	}

	return mount
}

type credentials struct {
	Token string `json:"token"`
	// Link reports that the token comes from the address of a link.
	Link bool `json:"link"`
}

// opened is the answer to a token, as JSON.
type opened struct {
	// Path is the path of the session below the mount point.
	Path string `json:"path"`
}

// maxToken bounds the body of a login, and loginTime its arrival.
const (
	maxToken  = 64 << 10
	loginTime = 10 * time.Second
)

// openSession exchanges a token for a cookie. The session of the request, if it has
// one, ends.
func (h *Handler) openSession(w http.ResponseWriter, r *http.Request) error {
	// A login needs no session, so its body must arrive sooner than the bodies of
	// others. Where the writer has no deadlines, the timeouts of the server hold.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(loginTime))
	raw, err := rules.ReadBody(w, r, maxToken)
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return err
	}

	body, err := web.Decode[credentials](rules, raw)
	if err != nil {
		return err
	}

	l, cookie, err := h.sessions.create(body.Token, body.Link)
	if err != nil {
		return err
	}

	// The token is valid, so strangers may not displace the connection.
	listen.Vouch(r)

	h.forgetCookie(r)
	http.SetCookie(w, newCookie(r, l.place, cookie))
	return web.WriteJSON(w, http.StatusOK, opened{placePath(l.place)})
}

// closeSession ends the session of a request.
func (h *Handler) closeSession(w http.ResponseWriter, r *http.Request) error {
	if place := placeOf(r); place != "" {
		h.forgetCookie(r)
		gone := newCookie(r, place, "")
		gone.MaxAge = -1
		http.SetCookie(w, gone)
	}

	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) forgetCookie(r *http.Request) {
	for _, old := range r.CookiesNamed(cookieName(r)) {
		h.sessions.remove(old.Value, placeOf(r))
	}
}
