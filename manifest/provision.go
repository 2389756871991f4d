package manifest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const (
	defaultNamespace = "default"
	provisionerName  = "limits-provisioner"
)

// Provisioner handles requests to plan or apply a manifest. A request comes from
// a program, or from CloudFormation for a custom resource. A Provisioner is safe
// for concurrent use.
type Provisioner struct {
	// Open opens a table, in any namespace. It returns an error that matches
	// limiter.ErrNotFound if the table does not exist. Handle closes the
	// repository after each request.
	Open func(ctx context.Context, table string) (limiter.Repository, error)
	// Table is the table for requests that name none.
	Table string
	// Now returns the time of changes; default time.Now.
	Now func() time.Time
	// Client sends answers to CloudFormation; default: a client with a timeout.
	Client *http.Client
}

// command is the request of a program.
type command struct {
	Action      string `json:"action"` // plan, the default, or apply
	Table       string `json:"table_name"`
	NamespaceID string `json:"namespace_id"`
	Manifest    any    `json:"manifest"`
}

// Answer is the response to a program.
type Answer struct {
	Status  string         `json:"status"` // planned or applied
	Changes []AnswerChange `json:"changes"`
	*Totals
}

// AnswerChange describes a change that was planned or tried.
type AnswerChange struct {
	Action Action  `json:"action"`
	Level  string  `json:"level"`
	Target *string `json:"target"` // nil for the system
}

// Totals counts the changes of an apply.
type Totals struct {
	Created int      `json:"created"`
	Updated int      `json:"updated"`
	Deleted int      `json:"deleted"`
	Errors  []string `json:"errors"`
}

// Handle handles one request. It returns an *[Answer] to a program. For
// CloudFormation, it sends a *[ResourceAnswer] to the URL in the request and
// returns it. A failed request of CloudFormation is reported in the answer, not
// in the error.
func (p *Provisioner) Handle(ctx context.Context, event []byte) (any, error) {
	var kind struct{ RequestType string }
	if err := unmarshal(event, &kind); err != nil {
		return nil, err
	}

	if kind.RequestType == "" {
		var c command
		if err := unmarshal(event, &c); err != nil {
			return nil, err
		}
		return p.handleCommand(ctx, c)
	}

	var r ResourceRequest
	if err := unmarshal(event, &r); err != nil {
		return nil, err
	}

	answer := p.handleResource(ctx, r)
	err := answer.send(ctx, p.Client, r.ResponseURL)
	return answer, err
}

func unmarshal(event []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(event))
	// A float64 would round large numbers.
	in.UseNumber()
	if err := in.Decode(into); err != nil {
		return fmt.Errorf("invalid request: %w", err)
	}
	return nil
}

// handleCommand plans or applies for a program.
func (p *Provisioner) handleCommand(ctx context.Context, c command) (*Answer, error) {
	if c.Action != "" && c.Action != "plan" && c.Action != "apply" {
		return nil, fmt.Errorf("action is %q, but must be plan or apply", c.Action)
	}

	m, err := FromValue(c.Manifest)
	if err != nil {
		return nil, err
	}

	repo, err := p.Open(ctx, cmp.Or(c.Table, p.Table))
	if err != nil {
		return nil, err
	}
	defer func() { _ = repo.Close() }()

	if m.Namespace, err = namespaceName(ctx, repo, m.Namespace, c.NamespaceID); err != nil {
		return nil, err
	}

	opts := &Options{Now: p.Now, Principal: provisionerName}
	if c.Action != "apply" {
		plan, err := NewPlan(ctx, repo, m, opts)
		if err != nil {
			return nil, err
		}
		return &Answer{Status: "planned", Changes: answerChanges(plan)}, nil
	}

	plan, report, err := Apply(ctx, repo, m, opts)
	if err != nil {
		return nil, err
	}
	return &Answer{"applied", answerChanges(plan), totals(report)}, nil
}

// namespaceName returns the name of a request's namespace. If the request has an
// ID, it is the name of the namespace with that ID, and has to match a given
// name.
func namespaceName(ctx context.Context, repo limiter.Repository, name, id string) (string, error) {
	if id == "" {
		return cmp.Or(name, defaultNamespace), nil
	}
	for ns, err := range repo.Namespaces(ctx) {
		switch {
		case err != nil:
			return "", err
		case ns.ID != id || !ns.DeletedAt.IsZero():
		case name != "" && name != ns.Name:
			return "", fmt.Errorf("the manifest is for namespace %q, but id %s belongs to %q", name, id, ns.Name)
		default:
			return ns.Name, nil
		}
	}
	return "", fmt.Errorf("namespace ID %q: %w", id, limiter.ErrNotFound)
}

func answerChanges(p *Plan) []AnswerChange {
	changes := make([]AnswerChange, len(p.Changes))
	for i, c := range p.Changes {
		changes[i] = AnswerChange{c.Action, Level(c.Scope), nil}
		if name := Target(c.Scope); name != "" {
			changes[i].Target = &name
		}
	}
	return changes
}

func totals(r *Report) *Totals {
	t := &Totals{r.Count(Create), r.Count(Update), r.Count(Delete), []string{}}
	for _, f := range r.Failed() {
		if f.Begun() {
			t.Errors = append(t.Errors, fmt.Sprintf("%s %s: %v", f.Action, levelName(f.Scope), f.Err))
		}
	}

	// Apply returns errTakenOver itself.
	if n, why := r.Left(); n > 0 && !errors.Is(why, errTakenOver) {
		t.Errors = append(t.Errors, fmt.Sprintf("%d of them were not begun: %v", n, why))
	}

	return t
}

// reportError returns an error for the failed changes of a report, or nil.
func reportError(r *Report) error {
	failed := r.Failed()
	if len(failed) == 0 {
		return nil
	}
	errs := []error{fmt.Errorf("%d of %d changes failed", len(failed), len(r.Results))}
	for _, text := range totals(r).Errors {
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
