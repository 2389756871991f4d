package jsonview

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Usage is a snapshot as JSON.
type Usage struct {
	Entity      string                 `json:"entity_id" doc:"entity that used the tokens"`
	Resource    string                 `json:"resource" doc:"resource that was used"`
	Window      string                 `json:"window" doc:"hourly, daily or monthly"`
	Start       time.Time              `json:"window_start" doc:"first second of the window"`
	End         time.Time              `json:"window_end" doc:"last second of the window"`
	Counters    map[string]int64       `json:"counters" doc:"tokens by limit, less those given back"`
	Events      int64                  `json:"total_events" doc:"number of changes of the bucket"`
	WouldRefuse map[string]int64       `json:"would_refuse,omitempty"`
	Dollars     map[string]json.Number `json:"dollars,omitempty" doc:"counters of money in dollars, by limit, if any"`
}

// FieldDocs returns the texts that are too long for tags.
func (Usage) FieldDocs() map[string]string {
	return map[string]string{
		"would_refuse": "calls that shadow limits would have refused, by limit; absent if there were none",
	}
}

// NewUsage returns a snapshot as JSON.
func NewUsage(s limiter.UsageSnapshot) Usage {
	counters := s.Counters
	if counters == nil {
		counters = map[string]int64{}
	}

	return Usage{
		s.Entity, s.Resource, string(s.Window), s.Start.UTC(), s.End.UTC(), counters, s.Events, s.WouldRefuse,
		dollarsOf(counters),
	}
}

// Total is a summary of usage as JSON.
type Total struct {
	Entity      *string                `json:"entity_id" doc:"entity of the query"`
	Resource    *string                `json:"resource" doc:"resource of the query"`
	Window      string                 `json:"window" doc:"length of the windows: hourly, daily or monthly"`
	Windows     int                    `json:"window_count" doc:"number of distinct windows"`
	Snapshots   int                    `json:"snapshot_count" doc:"snapshots, one per window, entity and resource"`
	Total       map[string]int64       `json:"total" doc:"tokens by limit; a cascading call counts once"`
	Cascaded    map[string]int64       `json:"cascaded"`
	Average     map[string]float64     `json:"average" doc:"average by limit, over the windows that have the limit"`
	First       *time.Time             `json:"min_window_start" doc:"start of the earliest window"`
	Last        *time.Time             `json:"max_window_start" doc:"start of the latest window"`
	WouldRefuse map[string]int64       `json:"would_refuse,omitempty"`
	Dollars     map[string]json.Number `json:"dollars,omitempty" doc:"total of money in dollars, by limit, if any"`
}

// FieldDocs returns the texts that are too long for tags.
func (Total) FieldDocs() map[string]string {
	return map[string]string{
		"cascaded": "tokens by limit that parents were charged for their children, not part of the total; empty in " +
			"the summary of an entity",
		"would_refuse": "calls that shadow limits would have refused, by limit; a cascading call counts once at " +
			"most; absent if there were none",
	}
}

// NewTotal returns the summary of a query as JSON.
func NewTotal(q limiter.UsageQuery, sum limiter.UsageSummary) Total {
	return Total{
		OrNull(q.Entity), OrNull(q.Resource), string(q.Window),
		sum.Windows, sum.Snapshots, sum.Total, sum.Cascaded, sum.Average, TimeOrNull(sum.First),
		TimeOrNull(sum.Last), sum.WouldRefuse, dollarsOf(sum.Total),
	}
}

// Audit is an audit event as JSON.
type Audit struct {
	ID        string         `json:"event_id" doc:"ID, a ULID that increases with time"`
	At        time.Time      `json:"timestamp" doc:"time of the change"`
	Action    string         `json:"action"`
	Entity    string         `json:"entity_id" doc:"subject: an entity, $SYSTEM, or $RESOURCE: and a resource"`
	Principal *string        `json:"principal" doc:"author of the change"`
	Resource  *string        `json:"resource" doc:"resource of the limits; _default_ for all"`
	Details   map[string]any `json:"details" doc:"stored values"`
}

// FieldDocs returns the texts that are too long for tags.
func (Audit) FieldDocs() map[string]string {
	return map[string]string{
		"action": "entity_created, entity_deleted, limits_set, limits_deleted, disabled, enabled, bucket_reset or " +
			"bucket_topped_up",
	}
}

// NewAudit returns an audit event as JSON.
func NewAudit(e limiter.AuditEvent) Audit {
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	return Audit{e.ID, e.At.UTC(), e.Action, e.Entity, OrNull(e.Principal), OrNull(e.Resource), details}
}

// ParseEvent validates the ID of an event, a ULID.
func ParseEvent(id string) (string, error) {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(id) != 26 || strings.Trim(id, digits) != "" {
		return "", errors.New("must be 26 digits and capital letters, as printed by an earlier list")
	}
	return id, nil
}
