package limiter

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// ExceededError reports that a limit does not cover its amount. Nothing was
// taken from any limit. It matches [ErrNeverFits] if an amount is above a
// capacity. It names the parent of the entity; show [ExceededError.Public] to
// clients.
type ExceededError struct {
	Decision Decision // the status of every limit of the entity and of its parent
}

// Error names the entity and resource with the longest wait, every exceeded limit
// with its amounts, and when to retry, or why no retry helps.
func (e *ExceededError) Error() string {
	p := e.Decision.Primary()
	what, advice := describeRefusal(p.Entity, p.Resource, e.Decision.Violations(), e.Decision)
	return "rate limit exceeded for " + what + "; " + advice
}

// Is reports whether target is ErrNeverFits and waiting does not help.
func (e *ExceededError) Is(target error) bool {
	return target == ErrNeverFits && e.Decision.NeverFits()
}

// RetryAfterHeader returns the value of an HTTP Retry-After header: whole
// seconds, rounded up, at least "1". A wait of a whole number of seconds is not
// rounded up for the millisecond that RetryAfter adds. RetryAfterHeader returns ""
// if the request never fits; the response must not have the header then.
func (e *ExceededError) RetryAfterHeader() string {
	if e.Decision.NeverFits() {
		return ""
	}

	seconds := int64(1)
	for i := range e.Decision.Statuses {
		if s := &e.Decision.Statuses[i]; s.Exceeded {
			seconds = max(seconds, bucket.Seconds(ceilMillis(s.RetryAfter), s.Limit.rate()))
		}
	}
	return strconv.FormatInt(seconds, 10)
}

// ceilMillis returns d in whole milliseconds, rounded up.
func ceilMillis(d time.Duration) int64 {
	return int64(d/time.Millisecond) + min(1, int64(d%time.Millisecond))
}

// MarshalJSON encodes the whole refusal: error, message, retry_after_seconds,
// retry_after_ms and limits, with never_fits if waiting does not help. A limit of
// money has its numbers in dollars as well, in the field dollars. The JSON includes
// the ID, capacity and balance of the parent; send [ExceededError.Public] to
// clients.
func (e *ExceededError) MarshalJSON() ([]byte, error) {
	d := e.Decision
	p := d.Primary()
	return json.Marshal(struct {
		Error      string       `json:"error"`
		Message    string       `json:"message"`
		RetryAfter float64      `json:"retry_after_seconds"`
		Millis     int64        `json:"retry_after_ms"`
		NeverFits  bool         `json:"never_fits,omitempty"`
		Limits     []statusJSON `json:"limits"`
	}{
		refusalCode, refusalMessage(p.Entity, p.Resource, d.Violations(), d),
		seconds(d.RetryAfter()), d.RetryAfter().Milliseconds(), d.NeverFits(), statusObjects(d.Statuses),
	})
}

// PublicRefusal is the part of a refusal that a client may see: the limits of its
// own entity, and nothing about any other. Its JSON is a body for HTTP 429.
type PublicRefusal struct {
	Message string // for people
	// RetryAfter is the longest wait, including the parent's; 0 if NeverFits.
	RetryAfter time.Duration
	NeverFits  bool // an amount is above its capacity, so no retry helps
	// Limits are the limits of the entity, without shadow limits. None is exceeded
	// if only its parent refused.
	Limits []Status
}

// Public returns the part of the refusal that the refused client may see. It
// says when to retry, but omits the ID, capacity and balance of the parent, and
// shadow limits.
func (e *ExceededError) Public() PublicRefusal {
	out := PublicRefusal{NeverFits: e.Decision.NeverFits()}

	if !out.NeverFits {
		out.RetryAfter = e.Decision.RetryAfter()
	}

	var self Status
	for i, s := range e.Decision.Statuses {
		// The entity's own limits come first.
		if i == 0 {
			self = s
		}
		// A time to retry would be wrong advice.
		if out.NeverFits {
			s.RetryAfter = 0
		}
		if s.Entity == self.Entity && !s.Limit.IsShadow {
			out.Limits = append(out.Limits, s)
		}
	}

	out.Message = refusalMessage(self.Entity, self.Resource, Decision{out.Limits}.Violations(), e.Decision)
	return out
}

// MarshalJSON encodes error, message, retry_after_seconds, retry_after_ms and
// limits, like the JSON of *[ExceededError], for the client's own entity. If the
// request never fits, never_fits is true and the two retry_after fields are
// absent.
func (r PublicRefusal) MarshalJSON() ([]byte, error) {
	body := struct {
		Error      string       `json:"error"`
		Message    string       `json:"message"`
		RetryAfter *float64     `json:"retry_after_seconds,omitempty"`
		Millis     *int64       `json:"retry_after_ms,omitempty"`
		NeverFits  bool         `json:"never_fits,omitempty"`
		Limits     []statusJSON `json:"limits"`
	}{Error: refusalCode, Message: r.Message, NeverFits: r.NeverFits, Limits: statusObjects(r.Limits)}
	// No time to retry is absent, and not 0, which means at once.
	if !r.NeverFits {
		wait, millis := seconds(r.RetryAfter), r.RetryAfter.Milliseconds()
		body.RetryAfter, body.Millis = &wait, &millis
	}
	return json.Marshal(body)
}

// refusalMessage returns the message of a refusal in JSON, which begins as that of
// the Python library.
func refusalMessage(entity, resource string, violations []Status, d Decision) string {
	what, advice := describeRefusal(entity, resource, violations, d)
	return "Rate limit exceeded for " + what + ". " + strings.ToUpper(advice[:1]) + advice[1:]
}

// describeRefusal returns the bucket and the violations to name, and advice on
// when to retry. It explains why a request never fits only with a limit from
// violations, since others may belong to the parent.
func describeRefusal(entity, resource string, violations []Status, d Decision) (what, advice string) {
	what = entity + "/" + resource

	for i, s := range violations {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		what += separator + describeViolation(s)
	}

	if !d.NeverFits() {
		return what, "retry after " + figure.Wait(d.RetryAfter())
	}

	var tooLarge []string
	for _, s := range violations {
		if s.NeverFits {
			tooLarge = append(tooLarge, describeNeverFits(s))
		}
	}
	// The limit may be one of the parent, which the client must not see.
	if tooLarge == nil {
		return what, "never fits: the request is above a capacity"
	}
	return what, "never fits: " + strings.Join(tooLarge, ", ")
}

// describeNeverFits returns the amount and the capacity that it is above. Only the
// capacity of a rate is also known as its burst.
func describeNeverFits(s Status) string {
	above := " is above the capacity (burst) of "
	if s.Limit.IsQuota() {
		above = " is above the capacity of "
	}
	return s.amount(s.Requested) + " " + s.Limit.Name + above + s.amount(s.Limit.Capacity)
}

// describeViolation returns an exceeded limit with what was requested and what is
// left. If the request never fits, describeNeverFits has its amounts.
func describeViolation(s Status) string {
	if s.NeverFits {
		return s.Limit.Name
	}

	left := s.amount(s.Available) + " of " + s.amount(s.Limit.Capacity) + " left"
	if s.Available < 0 {
		left = s.amount(bucket.Sub(0, s.Available)) + " in debt"
	}
	return s.Limit.Name + " (" + s.amount(s.Requested) + " requested, " + left + ")"
}

// amount formats an amount of the limit.
func (s Status) amount(n int64) string { return figure.Amount(s.Limit.Name, n) }

// refusalCode is the "error" field of every refusal in JSON.
const refusalCode = "rate_limit_exceeded"

type statusJSON struct {
	Entity      string     `json:"entity_id"`
	Resource    string     `json:"resource"`
	Limit       string     `json:"limit_name"`
	Capacity    int64      `json:"capacity"`
	Refill      int64      `json:"refill_amount"`
	Seconds     int64      `json:"refill_period_seconds"`
	Window      string     `json:"window,omitempty"`
	Zone        string     `json:"zone,omitempty"`
	Shadow      bool       `json:"shadow,omitempty"`
	Available   int64      `json:"available"`
	Requested   int64      `json:"requested"`
	Exceeded    bool       `json:"exceeded"`
	WouldRefuse bool       `json:"would_refuse,omitempty"`
	RetryAfter  float64    `json:"retry_after_seconds"`
	Dollars     *moneyJSON `json:"dollars,omitempty"`
}

// moneyJSON holds the numbers of a limit of money in dollars.
type moneyJSON struct {
	Capacity  json.Number `json:"capacity"`
	Available json.Number `json:"available"`
	Requested json.Number `json:"requested"`
}

func (s Status) moneyObject() *moneyJSON {
	if !s.Limit.IsMoney() {
		return nil
	}
	dollars := func(n int64) json.Number { return json.Number(figure.Decimal(n)) }
	return &moneyJSON{dollars(s.Limit.Capacity), dollars(s.Available), dollars(s.Requested)}
}

func statusObjects(all []Status) []statusJSON {
	objects := make([]statusJSON, 0, len(all))
	for _, s := range all {
		objects = append(objects, statusJSON{
			s.Entity, s.Resource, s.Limit.Name, s.Limit.Capacity, s.Limit.Refill, int64(s.Limit.Period / time.Second),
			s.Limit.Window.String(), s.Limit.Zone, s.Limit.IsShadow, s.Available, s.Requested, s.Exceeded,
			s.WouldRefuse, seconds(s.RetryAfter),
			s.moneyObject(),
		})
	}
	return objects
}

// seconds converts d with a single division, so that a whole millisecond prints
// with at most three decimals.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
