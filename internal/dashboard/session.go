package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Bounds of sessions.
const (
	maxSessions     = 1024
	maxSessionsEach = 128 // of one name
	idleSession     = 12 * time.Hour
)

// login is a session that is open.
type login struct {
	Session
	bearer string        // "" for a local session, or for viewers without one
	local  bool          // Options.Token opened it
	ended  chan struct{} // closed at the end; nil for viewers without a session
	used   time.Time     // guarded by sessions.mu
}

// sessions keeps the open sessions, by the hash of their cookies.
type sessions struct {
	opts  *Options
	mu    sync.Mutex
	spent bool // Token was used; guarded by mu
	open  map[[sha256.Size]byte]*login
}

func newSessions(opts *Options) *sessions {
	return &sessions{opts: opts, open: map[[sha256.Size]byte]*login{}}
}

var (
	errNoSession   = &httplimit.Problem{Status: http.StatusUnauthorized, Detail: "there is no session; open one with a token"}
	errToken       = &httplimit.Problem{Status: http.StatusUnauthorized, Detail: "the token is not valid, or was used already; a token of zae-limiter dashboard works once"}
	errRole        = &httplimit.Problem{Status: http.StatusForbidden, Detail: "the token needs the role read or admin"}
	errFull        = &httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: "too many sessions are open; retry later", RetryAfter: time.Minute}
	errNeedsWrite  = &httplimit.Problem{Status: http.StatusForbidden, Detail: "this dashboard shows limits and changes none; start it with permission to write"}
	errNeedsAdmin  = &httplimit.Problem{Status: http.StatusForbidden, Detail: "changes need a token with the role admin"}
	errTooManyOpen = &httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: "too many viewers are connected; retry later", RetryAfter: 10 * time.Second}
)

// create opens a session for a token and returns the value of its cookie.
func (s *sessions) create(token string) (string, error) {
	l, err := s.authenticate(token)
	if err != nil {
		return "", err
	}
	if l.Role != RoleRead && l.Role != RoleAdmin {
		return "", errRole
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.local && s.spent {
		return "", errToken
	}
	if !s.makeRoom(l.Name) {
		return "", errFull
	}
	s.spent = s.spent || l.local
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	cookie := base64.RawURLEncoding.EncodeToString(secret)
	l.ended, l.used = make(chan struct{}), time.Now()
	s.open[sha256.Sum256([]byte(cookie))] = l
	return cookie, nil
}

// authenticate returns the session of a token. It does not spend a local token.
func (s *sessions) authenticate(token string) (*login, error) {
	if s.opts.Token != "" {
		given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.opts.Token))
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			return &login{Session: Session{Name: s.opts.Principal, Role: RoleAdmin}, local: true}, nil
		}
	}
	if s.opts.Authenticate != nil {
		if found, ok := s.opts.Authenticate(token); ok {
			return &login{Session: found, bearer: token}, nil
		}
	}
	return nil, errToken
}

// makeRoom ends sessions that are idle too long, and the oldest of a name that has
// too many. It reports whether there is room for one more.
func (s *sessions) makeRoom(name string) bool {
	var oldest *login
	var oldestKey [sha256.Size]byte
	same := 0
	for key, l := range s.open {
		if time.Since(l.used) > idleSession {
			s.end(key, l)
			continue
		}
		if l.Name != name {
			continue
		}
		same++
		if oldest == nil || l.used.Before(oldest.used) {
			oldest, oldestKey = l, key
		}
	}
	if same >= maxSessionsEach {
		s.end(oldestKey, oldest)
	}
	return len(s.open) < maxSessions
}

// end ends a session. The caller holds mu.
func (s *sessions) end(key [sha256.Size]byte, l *login) {
	delete(s.open, key)
	close(l.ended)
}

// find returns the session of a request. A request without one may have the
// session of the token "".
func (s *sessions) find(r *http.Request) (*login, error) {
	for _, cookie := range r.CookiesNamed(cookieName(r)) {
		if l := s.lookup(cookie.Value); l != nil {
			return l, nil
		}
	}
	if s.opts.Authenticate != nil {
		if found, ok := s.opts.Authenticate(""); ok {
			return &login{Session: found}, nil
		}
	}
	return nil, errNoSession
}

// lookup returns the session of a cookie, and ends it if it is idle too long or
// its token is not valid any more.
func (s *sessions) lookup(cookie string) *login {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	l := s.open[key]
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	valid := s.holds(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[key] != l:
		return nil
	case !valid || time.Since(l.used) > idleSession:
		s.end(key, l)
		return nil
	}
	l.used = time.Now()
	return l
}

// holds reports whether the token of a session still means the same session.
func (s *sessions) holds(l *login) bool {
	if l.local {
		return true
	}
	now, ok := s.opts.Authenticate(l.bearer)
	return ok && now == l.Session
}

// alive reports whether a session is open, and keeps it so. Streams ask.
func (s *sessions) alive(l *login) bool {
	if !s.holds(l) {
		return false
	}
	if l.ended == nil {
		return true
	}
	select {
	case <-l.ended:
		return false
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.used = time.Now()
	return true
}

// remove ends the session of a cookie.
func (s *sessions) remove(cookie string) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.open[key]; l != nil {
		s.end(key, l)
	}
}
