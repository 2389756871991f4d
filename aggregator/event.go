package aggregator

import (
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Event is an audit event that its store no longer keeps.
type Event struct {
	limiter.AuditEvent
	Namespace string // its ID
	Expired   bool   // dropped for its age, not by somebody
}

// eventLine is an event as an archive holds it.
type eventLine struct {
	ID        string         `json:"event_id"`
	Entity    string         `json:"entity_id"`
	Action    string         `json:"action"`
	Timestamp string         `json:"timestamp"`
	Principal *string        `json:"principal"`
	Resource  *string        `json:"resource"`
	Details   map[string]any `json:"details"`
	Namespace string         `json:"namespace_id"`
	DeletedBy string         `json:"deleted_by"`
}

func (e *Event) line() ([]byte, error) {
	l := eventLine{
		ID: e.ID, Entity: e.Entity, Action: e.Action, Timestamp: e.At.UTC().Format(time.RFC3339),
		Principal: orNull(e.Principal), Resource: orNull(e.Resource), Details: e.Details,
		Namespace: e.Namespace, DeletedBy: "user",
	}
	if l.Details == nil {
		l.Details = map[string]any{}
	}
	if e.Expired {
		l.DeletedBy = "ttl"
	}
	return json.Marshal(l)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// file is the one an event belongs into: that of its hour, under its day. It
// depends on nothing else, so that an event given again meets itself.
func (e *Event) file() string {
	return e.At.UTC().Format("audit/year=2006/month=01/day=02/audit-2006-01-02T15")
}
