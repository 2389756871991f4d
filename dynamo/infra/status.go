package infra

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Status describes the health of a stack and of its resources. A part that could not
// be read has an Error, which is also in Problems.
type Status struct {
	Name      string    `json:"name" doc:"name of the stack and its table"`
	Region    string    `json:"region" doc:"AWS region"`
	CheckedAt time.Time `json:"checked_at" doc:"time of the check"`
	Verdict   Verdict   `json:"verdict" doc:"overall state, in one word"`
	// Problems lists the reasons for a verdict other than Ready.
	Problems []string `json:"problems" doc:"problems, a sentence each"`
	// Remedies lists the remedies that Problems and Versions name.
	Remedies []*dynamo.Remedy `json:"-"`

	Available     bool              `json:"available" doc:"whether the table is active"`
	LatencyMillis int64             `json:"latency_ms" doc:"latency of DescribeTable in milliseconds"`
	Stack         StackStatus       `json:"stack" doc:"CloudFormation stack"`
	Table         TableStatus       `json:"table" doc:"DynamoDB table"`
	Aggregator    FunctionStatus    `json:"aggregator" doc:"function that counts usage"`
	Provisioner   FunctionStatus    `json:"provisioner" doc:"function that applies declared limits"`
	EventSource   EventSourceStatus `json:"event_source" doc:"event source of the aggregator"`
	DeadLetters   QueueStatus       `json:"dead_letter_queue" doc:"queue of changes that could not be counted"`
	Versions      VersionStatus     `json:"versions" doc:"versions of schema, clients and functions"`
	Alarms        AlarmsStatus      `json:"alarms" doc:"CloudWatch alarms"`
	IAM           map[string]string `json:"iam" doc:"ARNs of policies and roles, by output"`
	CostHints     []string          `json:"cost_hints" doc:"what AWS bills for"`
}

// Verdict summarizes a Status.
type Verdict string

// Verdicts, from the worst to the best.
const (
	Unreachable Verdict = "unreachable" // the table does not exist or is not active
	// Broken means that an operation on the stack failed, or that this program cannot
	// use the table.
	Broken    Verdict = "broken"
	Changing  Verdict = "changing"  // an operation on the stack is in progress
	Degraded  Verdict = "degraded"  // limits work, but something else does not
	Uncertain Verdict = "uncertain" // limits work, but something else could not be checked
	Ready     Verdict = "ready"
)

// StackStatus describes the stack itself.
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

// TableStatus describes the table. Items and Bytes are up to six hours old.
type TableStatus struct {
	Exists       bool          `json:"exists"`
	Status       string        `json:"status"`
	Items        int64         `json:"items"`
	Bytes        int64         `json:"bytes"`
	Indexes      []IndexStatus `json:"indexes"`
	Stream       string        `json:"stream"` // its view type; "" without a stream
	TTL          string        `json:"ttl"`    // ENABLED, DISABLED, ...
	TTLAttribute string        `json:"ttl_attribute"`
	// RecoveryDays is the period of point-in-time recovery, or 0 if it is disabled.
	RecoveryDays       int    `json:"recovery_days"`
	DeletionProtection bool   `json:"deletion_protection"`
	Error              string `json:"error,omitempty"`
}

// IndexStatus describes an index of the table.
type IndexStatus struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	Projection string `json:"projection"` // ALL or KEYS_ONLY
	Bytes      int64  `json:"bytes"`
}

// FunctionStatus describes a function.
type FunctionStatus struct {
	Exists       bool   `json:"exists"`
	Name         string `json:"name"`
	State        string `json:"state"`       // Active, Inactive, Pending or Failed
	LastUpdate   string `json:"last_update"` // Successful, InProgress or Failed
	Reason       string `json:"reason"`
	Runtime      string `json:"runtime"`
	Architecture string `json:"architecture"`
	Version      string `json:"version"`       // of zae-limiter, from its tag
	SHA256       string `json:"sha256"`        // of its code, in hexadecimal
	Modified     string `json:"last_modified"` // in the format of the service
	MemoryMB     int    `json:"memory_mb"`
	Timeout      int    `json:"timeout_seconds"`
	Error        string `json:"error,omitempty"`
}

// EventSourceStatus describes the event source mapping of the aggregator.
type EventSourceStatus struct {
	Exists     bool      `json:"exists"`
	State      string    `json:"state"` // Enabled, Disabled, Creating, ...
	Reason     string    `json:"reason"`
	LastResult string    `json:"last_result"`
	Modified   time.Time `json:"last_modified,omitzero"`
	Error      string    `json:"error,omitempty"`
}

// QueueStatus describes a queue.
type QueueStatus struct {
	Exists   bool   `json:"exists"`
	URL      string `json:"url"`
	Messages int64  `json:"messages"` // approximate number
	Error    string `json:"error,omitempty"`
}

// VersionStatus describes all versions. An unknown one is "".
type VersionStatus struct {
	Program       string `json:"program"`                          // of this program
	ProgramSchema string `json:"program_schema"`                   // that this program writes
	Stack         string `json:"stack" doc:"CloudFormation stack"` // from the stack's tag
	Lambda        string `json:"lambda"`                           // from the aggregator's tag
	// Schema, ClientMin, UpdatedBy and UpdatedAt are from the version record.
	Schema    string    `json:"schema"`
	ClientMin string    `json:"client_min"`
	UpdatedBy string    `json:"updated_by"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	Pending   []string  `json:"pending_migrations"`
	Refused   string    `json:"refused,omitempty"` // why this program cannot use the table
	Error     string    `json:"error,omitempty"`
}

// AlarmsStatus describes the stack's alarms.
type AlarmsStatus struct {
	List  []AlarmStatus `json:"list"`
	Error string        `json:"error,omitempty"`
}

// AlarmStatus describes an alarm.
type AlarmStatus struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // OK, ALARM or INSUFFICIENT_DATA
	Reason  string    `json:"reason"`
	Updated time.Time `json:"updated,omitzero"`
}

// Inspect returns the status of a stack. It writes nothing. The Status includes the
// failures of single checks; Inspect itself returns a *limiter.InvalidError if the
// name is invalid, a *limiter.UnavailableError if it has no configuration for AWS,
// or the error of ctx.
func Inspect(ctx context.Context, name string, opts *Options) (Status, error) {
	s, err := newStackSession(ctx, "status", name, opts)
	if err != nil {
		return Status{}, err
	}

	st := s.newStatus()

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
	// Without CloudFormation there are no functions either. Another service may
	// respond to the calls of Lambda, and need not be waited for.
	if st.lacksCloudFormation() {
		cancel()
	}

	// The names of the queue and the alarms are outputs of the stack, so these
	// probes come after that of the stack.
	for _, probe := range []func(context.Context, *Status){s.probeDeadLetters, s.probeAlarms} {
		second.Go(func() { probe(ctx, &st) })
	}
	second.Wait()

	if err := ctx.Err(); err != nil {
		return Status{}, err
	}

	st.setVerdict(s)
	return st, nil
}

// newStatus returns a Status without results. Its lists are empty, not null.
func (s *session) newStatus() Status {
	none := func() map[string]string { return map[string]string{} }
	return Status{
		Name: s.name, Region: s.region, CheckedAt: s.opts.Now().UTC(), Problems: []string{}, IAM: none(),
		CostHints: []string{},
		Stack:     StackStatus{Parameters: none(), Tags: none(), Outputs: none()},
		Table:     TableStatus{Indexes: []IndexStatus{}},
		Versions:  VersionStatus{Pending: []string{}}, Alarms: AlarmsStatus{List: []AlarmStatus{}},
	}
}
