package infra

import (
	"context"
	"sync"
	"time"
)

// Status is how a stack and everything in it is. What could not be found out
// says why in its Error, and in Problems.
type Status struct {
	Name      string    `json:"name"`
	Region    string    `json:"region"`
	CheckedAt time.Time `json:"checked_at"`
	Verdict   Verdict   `json:"verdict"`
	// Problems are why the verdict is not Ready, a sentence each.
	Problems []string `json:"problems"`

	Available     bool              `json:"available"`  // the table answers
	LatencyMillis int64             `json:"latency_ms"` // of asking it how it is
	Stack         StackStatus       `json:"stack"`
	Table         TableStatus       `json:"table"`
	Aggregator    FunctionStatus    `json:"aggregator"`
	Provisioner   FunctionStatus    `json:"provisioner"`
	EventSource   EventSourceStatus `json:"event_source"`      // between the table's stream and the aggregator
	DeadLetters   QueueStatus       `json:"dead_letter_queue"` // changes that the aggregator could not count
	Versions      VersionStatus     `json:"versions"`
	Alarms        AlarmsStatus      `json:"alarms"`
	IAM           map[string]string `json:"iam"`        // ARNs of policies and roles by the stack's outputs
	CostHints     []string          `json:"cost_hints"` // what the owner pays for, a sentence each
}

// Verdict is the whole of a Status in a word.
type Verdict string

// Verdicts, from the worst to the best.
const (
	Unreachable Verdict = "unreachable" // the table does not answer, or is not there
	Broken      Verdict = "broken"      // work on the stack has failed, or the table is not for this program
	Changing    Verdict = "changing"    // work on the stack goes on
	Degraded    Verdict = "degraded"    // limits work, and something else does not
	Uncertain   Verdict = "uncertain"   // limits work, and something else could not be asked
	Ready       Verdict = "ready"
)

// StackStatus is about the stack itself.
type StackStatus struct {
	Exists     bool              `json:"exists"`
	ID         string            `json:"id"`
	Status     string            `json:"status"`
	Reason     string            `json:"reason"`
	Created    time.Time         `json:"created,omitzero"`
	Updated    time.Time         `json:"updated,omitzero"`
	Protected  bool              `json:"protected"`
	Parameters map[string]string `json:"parameters"`
	Tags       map[string]string `json:"tags"`
	Outputs    map[string]string `json:"outputs"`
	Error      string            `json:"error,omitempty"`
}

// TableStatus is about the table. Items and Bytes are about six hours old.
type TableStatus struct {
	Exists             bool          `json:"exists"`
	Status             string        `json:"status"`
	Items              int64         `json:"items"`
	Bytes              int64         `json:"bytes"`
	Indexes            []IndexStatus `json:"indexes"`
	Stream             string        `json:"stream"` // what it shows of a change; "" without one
	TTL                string        `json:"ttl"`    // ENABLED, DISABLED, ...
	TTLAttribute       string        `json:"ttl_attribute"`
	RecoveryDays       int           `json:"recovery_days"` // how far back it can be restored; 0 for not at all
	DeletionProtection bool          `json:"deletion_protection"`
	Error              string        `json:"error,omitempty"`
}

// IndexStatus is about an index of the table.
type IndexStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Bytes  int64  `json:"bytes"`
}

// FunctionStatus is about a function.
type FunctionStatus struct {
	Exists       bool   `json:"exists"`
	Name         string `json:"name"`
	State        string `json:"state"`       // Active, Inactive, Pending or Failed
	LastUpdate   string `json:"last_update"` // Successful, InProgress or Failed
	Reason       string `json:"reason"`
	Runtime      string `json:"runtime"`
	Architecture string `json:"architecture"`
	Version      string `json:"version"`       // of zae-limiter, by its tag
	SHA256       string `json:"sha256"`        // of its code, in hexadecimal digits
	Modified     string `json:"last_modified"` // as the service says it
	MemoryMB     int    `json:"memory_mb"`
	Timeout      int    `json:"timeout_seconds"`
	Error        string `json:"error,omitempty"`
}

// EventSourceStatus is about what brings changes to the aggregator.
type EventSourceStatus struct {
	Exists     bool      `json:"exists"`
	State      string    `json:"state"` // Enabled, Disabled, Creating, ...
	Reason     string    `json:"reason"`
	LastResult string    `json:"last_result"`
	Modified   time.Time `json:"last_modified,omitzero"`
	Error      string    `json:"error,omitempty"`
}

// QueueStatus is about a queue.
type QueueStatus struct {
	Exists   bool   `json:"exists"`
	URL      string `json:"url"`
	Messages int64  `json:"messages"` // about how many wait
	Error    string `json:"error,omitempty"`
}

// VersionStatus is what says which version it is. What is not said is "".
type VersionStatus struct {
	Program       string    `json:"program"`        // this one
	ProgramSchema string    `json:"program_schema"` // that this one writes
	Stack         string    `json:"stack"`          // by the stack's tag
	Lambda        string    `json:"lambda"`         // by the aggregator's tag
	Schema        string    `json:"schema"`         // by the table's record, as are the others
	ClientMin     string    `json:"client_min"`
	UpdatedBy     string    `json:"updated_by"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	Pending       []string  `json:"pending_migrations"`
	Refused       string    `json:"refused,omitempty"` // why this program must not use the table
	Error         string    `json:"error,omitempty"`
}

// AlarmsStatus is about the stack's alarms.
type AlarmsStatus struct {
	List  []AlarmStatus `json:"list"`
	Error string        `json:"error,omitempty"`
}

// AlarmStatus is about an alarm.
type AlarmStatus struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // OK, ALARM or INSUFFICIENT_DATA
	Reason  string    `json:"reason"`
	Updated time.Time `json:"updated,omitzero"`
}

// Inspect finds out how a stack is, and writes nothing. What fails is told in
// the Status; its error is *limiter.InvalidError for the name,
// *limiter.UnavailableError where AWS cannot even be asked, or the context's.
func Inspect(ctx context.Context, name string, opts *Options) (Status, error) {
	s, err := dial(ctx, "status", name, opts)
	if err != nil {
		return Status{}, err
	}
	st := s.blank()
	var first, second sync.WaitGroup
	functions, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, probe := range []func(context.Context, *Status){s.probeStack, s.probeTable, s.probeVersions} {
		first.Go(func() { probe(ctx, &st) })
	}
	for _, probe := range []func(context.Context, *Status){s.probeAggregator, s.probeProvisioner, s.probeEventSource} {
		second.Go(func() { probe(functions, &st) })
	}
	first.Wait()
	if st.isBare() { // so there are no functions, and what answers for them may be anything
		cancel()
	}
	for _, probe := range []func(context.Context, *Status){s.probeDeadLetters, s.probeAlarms} { // the stack knows their names
		second.Go(func() { probe(ctx, &st) })
	}
	second.Wait()
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	st.conclude(s.place)
	return st, nil
}

// blank is a Status of which nothing is known: its lists are empty, not null.
func (s *session) blank() Status {
	none := func() map[string]string { return map[string]string{} }
	return Status{
		Name: s.name, Region: s.region, CheckedAt: s.opts.Now().UTC(), Problems: []string{}, IAM: none(), CostHints: []string{},
		Stack: StackStatus{Parameters: none(), Tags: none(), Outputs: none()}, Table: TableStatus{Indexes: []IndexStatus{}},
		Versions: VersionStatus{Pending: []string{}}, Alarms: AlarmsStatus{List: []AlarmStatus{}},
	}
}
