package jsonview

import (
	"fmt"
	"maps"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Decision is the decision about a request as JSON.
type Decision struct {
	Entity     string           `json:"entity_id" doc:"requesting entity"`
	Resource   string           `json:"resource" doc:"requested resource"`
	Requested  map[string]int64 `json:"requested" doc:"requested tokens by limit"`
	Admitted   bool             `json:"admitted" doc:"whether every limit covers its amount"`
	RetryAfter float64          `json:"retry_after_seconds" doc:"wait before a retry; 0 if admitted or never_fits"`
	NeverFits  bool             `json:"never_fits" doc:"whether an amount exceeds its capacity: waiting does not help"`
	Reasons    []string         `json:"reasons" doc:"why the request is refused, a sentence for each limit"`
	Limits     []Status         `json:"limits" doc:"limits of the entity, then of its parent; see below"`
	Disabled   *Switch          `json:"disabled,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (Decision) FieldDocs() map[string]string {
	return map[string]string{
		"disabled": "level that is off and refuses the request, with level, entity_id, resource, reason and since; " +
			"absent if none is",
	}
}

// NewDecision returns the decision about a request as JSON.
func NewDecision(req limiter.Request, d limiter.Decision) Decision {
	return Decision{
		req.Entity, req.Resource, maps.Collect(req.Consume.All()), d.Admitted(),
		retryAfter(d.RetryAfter(), d.NeverFits()), d.NeverFits(), Reasons(d), NewStatuses(d.Statuses, nil), nil,
	}
}

// NewDisabled returns the decision about a request that a switch refuses as JSON.
// It has no limits, since the switch comes before them.
func NewDisabled(req limiter.Request, off *limiter.DisabledError) Decision {
	object := NewDecision(req, limiter.Decision{})
	object.Admitted, object.Reasons, object.Disabled =
		false, []string{tty.Printable(off.Error())}, SwitchOrNull(SwitchOf(off))
	return object
}

// Reasons returns why a request is refused, a sentence for each limit.
func Reasons(d limiter.Decision) []string {
	all := []string{}
	for _, s := range d.Violations() {
		all = append(all, reason(s))
	}
	return all
}

// Spared returns a sentence for each shadow limit that would refuse a request.
func Spared(d limiter.Decision) []string {
	var all []string
	for _, s := range d.Statuses {
		if s.WouldRefuse {
			all = append(all, fmt.Sprintf("%s of %s: a shadow limit, which would refuse: %s requested, %s of %s left",
				tty.Printable(s.Limit.Name), tty.Printable(s.Entity), amount(s, s.Requested),
				amount(s, s.Available), amount(s, s.Limit.Capacity)))
		}
	}
	return all
}

func reason(s limiter.Status) string {
	what := tty.Printable(s.Limit.Name) + " of " + tty.Printable(s.Entity) + ": " + amount(s, s.Requested) +
		" requested, "

	switch {
	case s.NeverFits:
		return what + "above its capacity of " + amount(s, s.Limit.Capacity)
	case s.Available < 0:
		return fmt.Sprintf("%sbut it is %s in debt; retry in %s", what, amount(s, Debt(s)), figure.Wait(s.RetryAfter))
	}
	return fmt.Sprintf("%s%s of %s left; retry in %s", what, amount(s, s.Available), amount(s, s.Limit.Capacity),
		figure.Wait(s.RetryAfter))
}

func amount(s limiter.Status, n int64) string { return tty.Amount(s.Limit.Name, n) }
