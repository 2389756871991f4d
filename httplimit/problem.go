package httplimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Types of a [Problem].
const (
	// TypeQuotaExceeded is the type of a refusal.
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// TypeBlank is the type of a problem that its status describes.
	TypeBlank = "about:blank"
)

// outageRetry is the Retry-After of an outage.
const outageRetry = 5 * time.Second

// Problem is an answer that refuses a request, as a problem document (RFC 9457).
// It is also an error: the function that maps a request may return one to choose
// the answer, such as status 401 for a missing key. The zero values of Type, Title
// and Status are TypeBlank, the text of the status, and 400.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // for people; clients see it
	// ViolatedPolicies names the exceeded limits of the entity and of its parent.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
	// Limits describes the limits of the entity itself, without shadow limits.
	Limits []LimitState `json:"limits,omitempty"`
	// Extensions are further members of the document. Their names must differ from
	// those above.
	Extensions map[string]any `json:"-"`
	// RetryAfter is the value of the field Retry-After, in seconds rounded up; 0
	// omits the field.
	RetryAfter time.Duration `json:"-"`
	// Challenge is the value of the field WWW-Authenticate of a status 401, such as
	// `Bearer realm="api"`; default: ApiKey. A field that is set already stays.
	Challenge string `json:"-"`
}

// defaultChallenge names no scheme that clients would answer on their own: where
// a key belongs is up to the server.
const defaultChallenge = "ApiKey"

// LimitState describes one limit in a [Problem].
type LimitState struct {
	Name      string `json:"name"`
	Capacity  int64  `json:"capacity"`
	Refill    int64  `json:"refill_amount"`         // 0 for a quota
	Seconds   int64  `json:"refill_period_seconds"` // 0 for a quota
	Window    string `json:"window,omitempty"`      // of a quota: hour, day, week, month or year
	Zone      string `json:"zone,omitempty"`        // of the window, if not UTC
	Available int64  `json:"available"`             // negative is debt
	Requested int64  `json:"requested"`
	Exceeded  bool   `json:"exceeded"`
	// Dollars has the amounts of a limit of money, whose other numbers are
	// millionths of a dollar. It is nil for other limits.
	Dollars *StateDollars `json:"dollars,omitempty" doc:"amounts of a limit of money in dollars; absent for others"`
}

// StateDollars holds the amounts of a limit of money in dollars.
type StateDollars struct {
	Capacity  json.Number `json:"capacity" doc:"the same in dollars"`
	Refill    json.Number `json:"refill_amount" doc:"the same in dollars"`
	Available json.Number `json:"available" doc:"the same in dollars"`
	Requested json.Number `json:"requested" doc:"the same in dollars"`
}

// Error returns the status, the title and the detail.
func (p *Problem) Error() string {
	q := p.withDefaults()

	text := strconv.Itoa(q.Status) + " " + q.Title
	if q.Detail != "" {
		text += ": " + q.Detail
	}
	return text
}

// withDefaults returns a copy of p without zero values.
func (p *Problem) withDefaults() *Problem {
	q := *p
	if q.Type == "" {
		q.Type = TypeBlank
	}

	// net/http panics for some of the statuses outside of this range.
	if q.Status < 200 || q.Status > 999 {
		q.Status = http.StatusBadRequest
	}

	if q.Title == "" {
		q.Title = phrase(q.Status)
	}
	return &q
}

// phrase returns the phrase of a status in RFC 9110. The library has older ones of
// two of them.
func phrase(status int) string {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return "Content Too Large"
	case http.StatusUnprocessableEntity:
		return "Unprocessable Content"
	}
	return http.StatusText(status)
}

// NewProblem returns the answer to a request that failed with err. The answer
// shows no text of err, which may contain an ID or the address of a store.
//
//   - An *[limiter.ExceededError] is 429, with RetryAfter unless it never fits.
//   - A *[limiter.DisabledError] is 403, without its reason and level.
//   - An *[limiter.InvalidError] is 400. If it says that something is missing in the
//     server's configuration, such as limits ([limiter.ErrNoLimits]) or the price of
//     a model, it is 500.
//   - An *[limiter.UnavailableError], a *[limiter.SwitchDelayedError], a closed
//     store and the end of a context are 503 with RetryAfter.
//   - An *[http.MaxBytesError] is 413.
//   - A *[Problem] is returned as it is, with its defaults.
//   - Anything else is 500.
func NewProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.withDefaults()
	}

	if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok {
		return newRefusal(refusal)
	}

	p := &Problem{Status: http.StatusInternalServerError, Detail: "the rate limits cannot be checked"}
	invalid, bad := errors.AsType[*limiter.InvalidError](err)
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, disabled := errors.AsType[*limiter.DisabledError](err)

	switch {
	case disabled:
		p.Status, p.Detail = http.StatusForbidden, "access is disabled"
	case bad && invalid.Err == nil:
		p.Status, p.Detail = http.StatusBadRequest, describeInvalid(invalid)
	// Limits or a price are missing.
	case bad:
		p.Detail = "the server is not set up for this request; its operator finds the reason in the log"
	case large:
		p.Status, p.Detail = http.StatusRequestEntityTooLarge, "the request's body is too large"
	case isOutage(err):
		p.Status, p.Detail, p.RetryAfter = http.StatusServiceUnavailable,
			"the rate limits cannot be checked at the moment", outageRetry
	}
	return p.withDefaults()
}

// isOutage reports whether the same request may succeed later.
func isOutage(err error) bool {
	_, unavailable := errors.AsType[*limiter.UnavailableError](err)
	_, delayed := errors.AsType[*limiter.SwitchDelayedError](err)
	return unavailable || delayed || errors.Is(err, limiter.ErrClosed) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// describeInvalid returns a text for the client. A reason may name an entity,
// except where it describes the form of an ID.
func describeInvalid(err *limiter.InvalidError) string {
	if err.Field == "entity_id" || err.Field == "resource" {
		return "invalid " + err.Field + ": " + err.Reason
	}
	return "invalid " + err.Field
}

// ServeHTTP answers with the problem.
func (p *Problem) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p = p.withDefaults()
	body, err := p.document()
	// An extension may have no form in JSON.
	if err != nil {
		http.Error(w, phrase(p.Status), p.Status)
		return
	}

	h := w.Header()

	// These fields describe a body that this one replaces.
	for _, stale := range []string{"Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
		h.Del(stale)
	}

	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))

	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(ceilSeconds(p.RetryAfter), 10))
	}

	// RFC 9110 requires a challenge with this status.
	if p.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", cmp.Or(p.Challenge, defaultChallenge))
	}

	w.WriteHeader(p.Status)

	// A client that has gone needs no answer.
	_, _ = w.Write(append(body, '\n'))
}

// document returns the problem document.
func (p *Problem) document() ([]byte, error) {
	body, err := json.Marshal(p)
	if err != nil || len(p.Extensions) == 0 {
		return body, err
	}

	more, err := json.Marshal(p.Extensions)
	if err != nil {
		return nil, err
	}

	// The document and its extensions become one object.
	body[len(body)-1] = ','
	return append(body, more[1:]...), nil
}

// WriteError answers a request that failed with err: the status, the fields of f
// and Retry-After, and [NewProblem] as the body. A nil f means the defaults.
func WriteError(w http.ResponseWriter, err error, f *Fields) {
	f.setRefused(w.Header(), err)
	NewProblem(err).ServeHTTP(w, nil)
}
