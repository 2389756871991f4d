package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Usage is the usage of an entity, oldest first, as JSON.
type Usage struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// Snapshot is the usage in one window, as JSON.
type Snapshot struct {
	Start    time.Time        `json:"start"`
	Window   string           `json:"window"`
	Counters map[string]int64 `json:"counters"`
	Events   int64            `json:"events"`
	// WouldRefuse counts calls that shadow limits would have refused, by limit.
	WouldRefuse map[string]int64 `json:"would_refuse,omitempty"`
}

// maxSnapshots bounds the snapshots that one call reads.
const maxSnapshots = 20_000

// usualSpans is the time that a chart shows unless the viewer chooses.
var usualSpans = map[limiter.Window]time.Duration{
	limiter.Hourly: 48 * time.Hour, limiter.Daily: 60 * 24 * time.Hour, limiter.Monthly: 730 * 24 * time.Hour,
}

func usage(c *call) (any, error) {
	q, err := c.usageQuery()
	if err != nil {
		return nil, err
	}

	u := Usage{Snapshots: []Snapshot{}}
	n := 0
	for s, err := range c.lim.Usage(c.ctx, q) {
		if err != nil {
			return nil, err
		}

		// Snapshots come newest first, so a bound drops the oldest.
		if n++; n > maxSnapshots {
			break
		}

		u.add(s)
	}

	slices.Reverse(u.Snapshots)
	return u, nil
}

// windows has the words of the parameter window, the default first.
var windows = []string{string(limiter.Hourly), string(limiter.Daily), string(limiter.Monthly)}

// usageQuery returns the query of the parameters.
func (c *call) usageQuery() (limiter.UsageQuery, error) {
	q := limiter.UsageQuery{
		Entity: c.param("entity"), Resource: c.param("resource"),
		Window: limiter.Window(cmp.Or(c.param("window"), windows[0])),
	}
	if q.Entity == "" {
		return q, web.Bad("parameter entity: is missing; it is the ID of an entity")
	}

	for name, target := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if text := c.param(name); text != "" {
			var err error
			if *target, err = jsonview.ParseTime(c.now(), text); err != nil {
				return q, web.Bad("parameter %s: %v", name, err)
			}
		}
	}

	if q.From.IsZero() {
		q.From = c.now().Add(-usualSpans[q.Window])
	}

	if !q.To.IsZero() && q.To.Before(q.From) {
		return q, web.Bad("parameter to: must not be before from")
	}

	return q, q.Validate()
}

// add adds a snapshot. Snapshots of several resources in one window are added up.
func (u *Usage) add(s limiter.UsageSnapshot) {
	last := len(u.Snapshots) - 1
	if last < 0 || !u.Snapshots[last].Start.Equal(s.Start) {
		u.Snapshots = append(u.Snapshots, Snapshot{
			Start: s.Start.UTC(), Window: string(s.Window), Counters: map[string]int64{},
		})
		last++
	}

	for name, n := range s.Counters {
		u.Snapshots[last].Counters[name] = bucket.Add(u.Snapshots[last].Counters[name], n)
	}
	for name, n := range s.WouldRefuse {

		if u.Snapshots[last].WouldRefuse == nil {
			u.Snapshots[last].WouldRefuse = map[string]int64{}
		}
		u.Snapshots[last].WouldRefuse[name] += n
	}

	u.Snapshots[last].Events += s.Events
}

// Audit is a part of the audit trail, newest first, as JSON.
type Audit struct {
	Events []jsonview.Audit `json:"events"`
	Next   string           `json:"next"`
}

// Bounds of a part of the audit trail.
const usualEvents, mostEvents = 50, 200

func audit(c *call) (any, error) {
	limit, err := c.limit(usualEvents, mostEvents)
	if err != nil {
		return nil, err
	}

	after := c.param("after")
	if after != "" {
		if _, err := jsonview.ParseEvent(after); err != nil {
			return nil, web.Bad("parameter after: must be the next of an earlier answer")
		}
	}

	a := Audit{Events: []jsonview.Audit{}}
	for e, err := range c.lim.AuditEvents(c.ctx, c.param("entity"), after) {
		if err != nil {
			return nil, err
		}

		// The event after the last one of a part shows that there is a next
		// part.
		if len(a.Events) == limit {
			a.Next = a.Events[limit-1].ID
			break
		}

		a.Events = append(a.Events, jsonview.NewAudit(e))
	}
	return a, nil
}
