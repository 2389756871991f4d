package dashboard

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/listen"
)

// cookieName returns the name of the cookie. It has the port, since browsers send
// a cookie to all ports of a host.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = "0"
	}
	return "zael-" + port
}

// newCookie returns a cookie for the mount point of the request, whose path ends
// in suffix.
func newCookie(r *http.Request, suffix, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: mountPoint(r, suffix), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
}

// mountPoint returns the path at which the browser sees the handler.
func mountPoint(r *http.Request, suffix string) string {
	seen, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return "/"
	}
	mount, ok := strings.CutSuffix(seen.Path, suffix)
	if !ok || !strings.HasPrefix(mount, "/") || strings.ContainsAny(mount, "; ,\\\"") {
		return "/"
	}
	return mount
}

type credentials struct {
	Token string `json:"token"`
}

// openSession exchanges a token for a cookie. A session of the same browser ends.
func (h *Handler) openSession(w http.ResponseWriter, r *http.Request) error {
	var body credentials
	if err := h.readJSON(w, r, maxBody, &body); err != nil {
		return err
	}
	value, err := h.sessions.create(body.Token)
	if err != nil {
		return err
	}
	listen.Vouch(r)
	h.forgetCookie(r)
	http.SetCookie(w, newCookie(r, "api/session", value))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// closeSession ends the session of a request.
func (h *Handler) closeSession(w http.ResponseWriter, r *http.Request) error {
	h.forgetCookie(r)
	gone := newCookie(r, "api/session", "")
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) forgetCookie(r *http.Request) {
	for _, old := range r.CookiesNamed(cookieName(r)) {
		h.sessions.remove(old.Value)
	}
}
