package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// CheckFill returns a *limiter.InvalidError if a reset or a top-up names a limit
// that is not among the limits of its bucket.
func CheckFill(f *limiter.Fill, limits []limiter.Limit) error {
	for i, name := range f.Limits {
		if find(limits, name, i) < 0 {
			return notFillable(f, name, limits)
		}
	}
	for i := range f.Amounts.Len() {
		if name, _ := f.Amounts.At(i); find(limits, name, i) < 0 {
			return notFillable(f, name, limits)
		}
	}
	return nil
}

// FillEvent returns the audit event of a fill. If the details of a reset of all
// limits have "limits", FillEvent lists the names there.
func FillEvent(ev limiter.AuditEvent, f *limiter.Fill, limits []limiter.Limit) limiter.AuditEvent {
	// A top-up and a reset of some limits name their limits already.
	if _, ok := ev.Details["limits"]; !ok || f.ID != "" || len(f.Limits) > 0 {
		return ev
	}

	names := make([]any, len(limits))
	for i, l := range limits {
		names[i] = l.Name
	}

	// The caller keeps its event, so the map must not change.
	ev.Details = maps.Clone(ev.Details)
	ev.Details["limits"] = names
	return ev
}

func notFillable(f *limiter.Fill, name string, limits []limiter.Limit) error {
	have := make([]string, len(limits))
	for i, l := range limits {
		have[i] = l.Name
	}

	return &limiter.InvalidError{
		Field: "limit", Value: name,
		Reason: fmt.Sprintf("is no limit of entity %s and resource %s; the limits are %s", f.Entity, f.Resource,
			strings.Join(have, ", ")),
		Err: limiter.ErrUnknown,
	}
}

// clockTolerance is how far the clocks of one deployment may differ, in
// milliseconds.
const clockTolerance = 2 * 60 * 1000

// Fill resets or tops up the bucket at now, after CheckFill. It counts no usage. A
// reset returns a quota to the window of now if its window begins further ahead than
// clocks may differ. Otherwise it keeps the window: a reset by a clock that is a little
// behind would add a step to what it gives.
func (b *Bucket) Fill(now int64, f *limiter.Fill) {
	b.Advance(now)

	for j, l := range b.Account.Limits {
		full := l.Capacity * bucket.Milli
		n, named := f.Amounts.Lookup(l.Name)
		switch {
		// Only a top-up has an ID. Like a credit, it lowers the hidden use by
		// what is above the capacity.
		case f.ID != "":
			if named {
				b.give(j, bucket.Thousandths(n))
			}
		case len(f.Limits) == 0 || slices.Contains(f.Limits, l.Name):
			b.Tokens[j] = full
			if l.Window != 0 {
				// A clock that is far ahead has begun the window, and the quota
				// would gain nothing until then. A window that begins a little
				// ahead stays, or the boundary would fill the quota a second
				// time.
				if bucket.Sub(b.Starts[j], now) > clockTolerance {
					b.Starts[j] = windowStart(l, now)
				}

				// The quota is as new, so neither its peak nor its hidden use
				// stays.
				if b.Peaks != nil {
					b.Peaks = withValue(b.Peaks, len(b.Peaks), j, 0)
				}
				if b.Hidden != nil {
					b.Hidden = withValue(b.Hidden, len(b.Hidden), j, 0)
				}
			}
		}
	}

	// A reset of all limits leaves the bucket as if it were new. A reset of
	// some keeps what earlier limits left.
	if f.ID == "" && len(f.Limits) == 0 {
		b.Left, b.Keep = nil, 0
	}

	b.extend()
}
