package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Bounds of sessions.
const (
	maxSessions     = 1024
	maxSessionsEach = 128 // of one token, by its name
	idleSession     = 12 * time.Hour
)

// login is a session that is open.
type login struct {
	Session
	// place is the secret in the path of the session, and bearer its token. Both are
	// "" for viewers without a session, and bearer for a local session too.
	place  string
	bearer string
	// local reports that Options.Token opened the session.
	local bool
	// ended is closed at the end. It is nil for viewers without a session.
	ended chan struct{}
	used  time.Time // guarded by sessions.mu
}

// sessions keeps the open sessions, by the hash of their cookies.
type sessions struct {
	opts *Options
	// start runs a function in the background.
	start func(func()) bool
	// over is closed when the handler is.
	over <-chan struct{}
	// mu guards the fields below.
	mu sync.Mutex
	// spent reports that Options.Token was used.
	spent bool
	// checking reports that check runs.
	checking bool
	open     map[[sha256.Size]byte]*login
}

func newSessions(h *Handler) *sessions {
	return &sessions{opts: &h.opts, start: h.start, over: h.ctx.Done(), open: map[[sha256.Size]byte]*login{}}
}

// Sizes of secrets.
const (
	placeBytes  = 16
	cookieBytes = 32
)

// secretAlphabet has the characters of a secret.
const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// newSecret returns random bytes as text.
func newSecret(n int) string {
	secret := make([]byte, n)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

var (
	errNoSession = &httplimit.Problem{
		Status: http.StatusUnauthorized, Detail: "there is no session; open one with a token",
	}
	errToken = &httplimit.Problem{
		Status: http.StatusUnauthorized,
		Detail: "the token is not valid, or was used already; a token of zae-limiter dashboard works once",
	}
	errLink = &httplimit.Problem{
		Status: http.StatusUnauthorized, Detail: "this page takes no token from a link; enter the token",
	}
	errRole = &httplimit.Problem{Status: http.StatusForbidden, Detail: "the token needs the role read or admin"}
	errFull = &httplimit.Problem{
		Status: http.StatusServiceUnavailable, Detail: "too many sessions are open; retry later",
		RetryAfter: time.Minute,
	}
	errNeedsWrite = &httplimit.Problem{
		Status: http.StatusForbidden,
		Detail: "this dashboard shows limits and changes none; start it with permission to write",
	}
	errNeedsAdmin = &httplimit.Problem{
		Status: http.StatusForbidden, Detail: "changes need a token with the role admin",
	}
	errTooManyOpen = &httplimit.Problem{
		Status: http.StatusServiceUnavailable, Detail: "too many viewers are connected; retry later",
		RetryAfter: 10 * time.Second,
	}
)

// create opens a session for a token and returns the value of its cookie. Only the
// token of a local session may come from a link: by another one, an attacker's page
// could bring a viewer into a session that is not theirs.
func (s *sessions) create(token string, link bool) (l *login, cookie string, err error) {
	l, err = s.authenticate(token)
	switch {
	case err != nil:
		return nil, "", err
	case link && !l.local:
		return nil, "", errLink
	case l.Role != RoleRead && l.Role != RoleAdmin:
		return nil, "", errRole
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	// The check and the mark are under one lock, so that one of many requests
	// gets the token.
	if l.local && s.spent {
		return nil, "", errToken
	}
	// A dashboard that is full leaves the token unspent.
	if !s.makeRoom(l.Name) {
		return nil, "", errFull
	}
	s.spent = s.spent || l.local

	cookie = newSecret(cookieBytes)
	l.place, l.ended, l.used = newSecret(placeBytes), make(chan struct{}), time.Now()
	s.open[sha256.Sum256([]byte(cookie))] = l

	if !l.local && !s.checking {
		s.checking = s.start(s.check)
	}

	return l, cookie, nil
}

// check ends sessions whose token is not valid any more. It looks also at sessions
// that no viewer uses. Otherwise a session would come back when its token does. It
// returns when there is no session.
func (s *sessions) check() {
	tick := time.NewTicker(sessionCheck)
	defer tick.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-tick.C:
		}

		for key, l := range s.all() {
			if !s.holds(l) {
				s.removeKey(key, l)
			}
		}

		if s.checked() {
			return
		}
	}
}

// all returns the open sessions.
func (s *sessions) all() map[[sha256.Size]byte]*login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.open)
}

// checked reports whether no session is left to check, and then marks the check as
// ended.
func (s *sessions) checked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = len(s.open) > 0
	return !s.checking
}

// authenticate returns the session of a token. It does not spend a local token.
func (s *sessions) authenticate(token string) (*login, error) {
	if s.opts.Token != "" {
		// The comparison takes the same time for texts of one length, which
		// hashes have.
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

// find returns the session of a request, whose cookie counts at the path of the
// session alone. A request at the mount point may have the session of the token
// "".
func (s *sessions) find(r *http.Request) (*login, error) {
	place := placeOf(r)
	if place == "" {
		// Only a caller without a login accepts an empty token.
		if s.opts.Authenticate != nil {
			if found, ok := s.opts.Authenticate(""); ok {
				return &login{Session: found}, nil
			}
		}
		return nil, errNoSession
	}

	for _, cookie := range r.CookiesNamed(cookieName(r)) {
		if l := s.lookup(cookie.Value, place); l != nil {
			return l, nil
		}
	}

	return nil, errNoSession
}

// lookup returns the session of a cookie at a place, and ends it if it is idle too
// long or its token is not valid any more.
func (s *sessions) lookup(cookie, place string) *login {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	l := s.open[key]
	s.mu.Unlock()
	// The cookie counts at the path of its session alone.
	if l == nil || subtle.ConstantTimeCompare([]byte(l.place), []byte(place)) != 1 {
		return nil
	}

	// Authenticate may read a file, so it runs without the lock. Meanwhile
	// another request may end the session.
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

// alive reports whether the session of a stream is open, and keeps it from being
// idle.
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

// remove ends the session of a cookie at a place.
func (s *sessions) remove(cookie, place string) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	l := s.open[key]
	s.mu.Unlock()

	if l != nil && l.place == place {
		s.removeKey(key, l)
	}
}

// removeKey ends a session, unless it has ended.
func (s *sessions) removeKey(key [sha256.Size]byte, l *login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] == l {
		s.end(key, l)
	}
}
