package limiter

import (
	"encoding/json"
	"time"
)

// PublicRefusal is what a client may see of a refusal: the limits of its own
// entity, and nothing about any other. Its JSON is a body for HTTP 429.
type PublicRefusal struct {
	Message string // for people
	// RetryAfter is the longest wait, a parent's included; 0 when NeverFits.
	RetryAfter time.Duration
	NeverFits  bool     // some amount is above its capacity, so that no retry helps
	Limits     []Status // of the entity; none is exceeded when only its parent refused
}

// Public returns what the client that was refused may see: no id, capacity or
// balance of the parent that refused, but when to retry.
func (e *ExceededError) Public() PublicRefusal {
	out := PublicRefusal{NeverFits: e.NeverFits()}
	if !out.NeverFits {
		out.RetryAfter = e.RetryAfter()
	}
	var self Status
	for i, s := range e.Statuses {
		if i == 0 {
			self = s // the entity's own come first
		}
		if out.NeverFits {
			s.RetryAfter = 0
		}
		if s.Entity == self.Entity {
			out.Limits = append(out.Limits, s)
		}
	}
	out.Message = refusalText(self.Entity, self.Resource, Decision{out.Limits}.Violations(), e.Decision)
	return out
}

// MarshalJSON gives error, message, retry_after_seconds, retry_after_ms and
// limits, as the JSON of *[ExceededError] does, of the client's own entity. When
// the request never fits, never_fits is true and nothing says when to retry.
func (r PublicRefusal) MarshalJSON() ([]byte, error) {
	body := struct {
		Error      string       `json:"error"`
		Message    string       `json:"message"`
		RetryAfter *float64     `json:"retry_after_seconds,omitempty"`
		Millis     *int64       `json:"retry_after_ms,omitempty"`
		NeverFits  bool         `json:"never_fits,omitempty"`
		Limits     []statusJSON `json:"limits"`
	}{Error: refused, Message: r.Message, NeverFits: r.NeverFits, Limits: statusObjects(r.Limits)}
	if !r.NeverFits {
		wait, millis := seconds(r.RetryAfter), r.RetryAfter.Milliseconds()
		body.RetryAfter, body.Millis = &wait, &millis
	}
	return json.Marshal(body)
}
