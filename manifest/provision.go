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

// Provisioner applies manifests that somebody sends: a program, which asks for a
// plan or an apply, or CloudFormation, on behalf of a custom resource. It is
// safe for concurrent use.
type Provisioner struct {
	// Open opens a table, in any namespace. A table that is not there is an error
	// that matches limiter.ErrNotFound. What it returns is closed after each
	// request.
	Open func(ctx context.Context, table string) (limiter.Repository, error)
	// Table is the one for requests that name none.
	Table string
	// Now is when changes happen; default time.Now.
	Now func() time.Time
	// Client brings answers to CloudFormation; default one with a timeout.
	Client *http.Client
}

// command is what a program sends.
type command struct {
	Action      string `json:"action"` // "" is plan
	Table       string `json:"table_name"`
	NamespaceID string `json:"namespace_id"`
	Manifest    any    `json:"manifest"`
}

// Answer is what a program gets for its request.
type Answer struct {
	Status  string         `json:"status"` // planned or applied
	Changes []AnswerChange `json:"changes"`
	*Totals
}

// AnswerChange is a change that is planned, or was tried.
type AnswerChange struct {
	Action Action  `json:"action"`
	Level  string  `json:"level"`
	Target *string `json:"target"` // nil is the system
}

// Totals are what an apply did.
type Totals struct {
	Created int      `json:"created"`
	Updated int      `json:"updated"`
	Deleted int      `json:"deleted"`
	Errors  []string `json:"errors"`
}

// Handle answers one request: an *[Answer] for a program, a *[ResourceAnswer]
// for CloudFormation, which has been brought to it then. What failed for
// CloudFormation is in its answer, not in the error.
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
		return p.obey(ctx, c)
	}
	var r ResourceRequest
	if err := unmarshal(event, &r); err != nil {
		return nil, err
	}
	answer := p.provide(ctx, r)
	err := answer.send(ctx, p.Client, r.ResponseURL)
	return answer, err
}

func unmarshal(event []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(event))
	in.UseNumber()
	if err := in.Decode(into); err != nil {
		return fmt.Errorf("the request is not understood: %w", err)
	}
	return nil
}

// obey plans or applies for a program.
func (p *Provisioner) obey(ctx context.Context, c command) (*Answer, error) {
	if c.Action != "" && c.Action != "plan" && c.Action != "apply" {
		return nil, fmt.Errorf("action is %q, but it has to be plan or apply", c.Action)
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
	if m.Namespace, err = namespaceOf(ctx, repo, m.Namespace, c.NamespaceID); err != nil {
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

// namespaceOf is the name of the namespace that a request is for: that with an
// ID, if it has one, which must then be the one named.
func namespaceOf(ctx context.Context, repo limiter.Repository, name, id string) (string, error) {
	if id == "" {
		return cmp.Or(name, defaultNamespace), nil
	}
	for ns, err := range repo.Namespaces(ctx) {
		switch {
		case err != nil:
			return "", err
		case ns.ID != id || !ns.DeletedAt.IsZero():
		case name != "" && name != ns.Name:
			return "", fmt.Errorf("the manifest is for namespace %q, but id %s is that of %q", name, id, ns.Name)
		default:
			return ns.Name, nil
		}
	}
	return "", fmt.Errorf("namespace id %q: %w", id, limiter.ErrNotFound)
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
	if n, why := r.Left(); n > 0 && !errors.Is(why, errTaken) { // which is the error of the whole
		t.Errors = append(t.Errors, fmt.Sprintf("%d of them were not begun: %v", n, why))
	}
	return t
}

// failure is nil if all of a report was done.
func failure(r *Report) error {
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
