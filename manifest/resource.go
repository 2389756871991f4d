package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// ResourceRequest is what CloudFormation sends for a custom resource.
type ResourceRequest struct {
	RequestType        string // Create, Update or Delete
	ResponseURL        string // where the answer has to be brought
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	PhysicalResourceID string `json:"PhysicalResourceId"` // "" for Create
	ResourceProperties map[string]any
}

// neverMade is the physical ID of a resource whose namespace was never found.
const neverMade = "failed"

// reserved is the time kept back for noting what was done and for the answer:
// without one, CloudFormation waits for an hour.
const reserved = 20 * time.Second

// provide does what CloudFormation asks for. Whatever goes wrong is in the
// answer.
func (p *Provisioner) provide(ctx context.Context, r ResourceRequest) *ResourceAnswer {
	if deadline, ok := ctx.Deadline(); ok {
		keep := min(reserved, time.Until(deadline)/2)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-keep))
		defer cancel()
	}
	a := &ResourceAnswer{
		Status: succeeded, PhysicalResourceID: cmp.Or(r.PhysicalResourceID, neverMade),
		StackID: r.StackID, RequestID: r.RequestID, LogicalResourceID: r.LogicalResourceID, Data: &ResourceData{},
	}
	work := p.set
	switch r.RequestType {
	case "Create", "Update":
	case "Delete":
		work = p.clear
	default:
		work = func(context.Context, ResourceRequest, *ResourceAnswer) error {
			return fmt.Errorf("RequestType is %q, but it has to be Create, Update or Delete", r.RequestType)
		}
	}
	if err := work(ctx, r, a); err != nil {
		a.Status, a.Reason = failed, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return a
}

// set applies what the properties declare. A resource that failed has the
// physical ID of the namespace if what is managed there is its own, so that a
// delete finds what it has made, and takes nothing of others.
func (p *Provisioner) set(ctx context.Context, r ResourceRequest, a *ResourceAnswer) error {
	m, err := FromProperties(r.ResourceProperties)
	if err != nil {
		return err
	}
	property := func(name string) string { text, _ := r.ResourceProperties[name].(string); return text }
	table := cmp.Or(property(propertyTable), p.Table)
	repo, err := p.Open(ctx, table)
	if err != nil {
		return err
	}
	defer func() { _ = repo.Close() }()
	if m.Namespace, err = namespaceOf(ctx, repo, m.Namespace, property(propertySpaceID)); err != nil {
		return err
	}
	id, err := namespaceID(ctx, repo, m.Namespace)
	if err != nil {
		return err
	}
	mine, err := p.applyFor(ctx, repo, m, r, a, r.takes)
	if mine || err == nil {
		a.PhysicalResourceID = strings.Join([]string{table, id, provisionerName}, "/")
	}
	return err
}

// clear deletes what is managed in the namespace of a physical ID, if it belongs
// to the resource alone, or to nobody. Where there is no such namespace, there
// is nothing to delete.
func (p *Provisioner) clear(ctx context.Context, r ResourceRequest, a *ResourceAnswer) error {
	parts := strings.Split(r.PhysicalResourceID, "/")
	if len(parts) != 3 || parts[2] != provisionerName {
		return nil
	}
	repo, err := p.Open(ctx, parts[0])
	if errors.Is(err, limiter.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = repo.Close() }()
	name, err := namespaceOf(ctx, repo, "", parts[1])
	if err == nil {
		_, err = p.applyFor(ctx, repo, &Manifest{Namespace: name}, r, a, r.leaves)
	}
	if errors.Is(err, limiter.ErrNotFound) {
		return nil
	}
	return err
}

// applyFor applies in the name of the stack. It tells whether what is managed is
// all the resource's own.
func (p *Provisioner) applyFor(
	ctx context.Context, repo limiter.Repository, m *Manifest, r ResourceRequest, a *ResourceAnswer, by func(state) (owner, bool, error),
) (mine bool, err error) {
	opts := &Options{Now: p.Now, Principal: provisionerName, ownership: by}
	if strings.HasPrefix(r.StackID, "arn:") {
		opts.Principal = r.StackID
	}
	plan, report, err := Apply(ctx, repo, m, opts)
	if report == nil {
		return false, err
	}
	*a.Data = ResourceData{report.Count(Create), report.Count(Update), report.Count(Delete), report.Same, len(report.Failed())}
	takenOver := errors.Is(err, errTaken)
	mine = !takenOver && (len(plan.known.scopes) == 0 || report.owner.has(r.StackID, r.LogicalResourceID))
	return mine, errors.Join(failure(report), err)
}

// takes makes the resource an owner, unless another stack is.
func (r ResourceRequest) takes(known state) (next owner, keep bool, err error) {
	if stack := known.owner.stack(); stack != "" && stack != r.StackID && len(known.scopes) > 0 {
		return "", false, fmt.Errorf(
			"stack %s manages the limits of this namespace; delete them there, or take them over by `zae-limiter limits apply`, then try again (a rollback that stops here goes on with --resources-to-skip)", stack)
	}
	next = known.owner
	if next == "" && len(known.scopes) > 0 && r.RequestType == "Create" {
		next = next.with(r.StackID, before)
	}
	return next.with(r.StackID, r.LogicalResourceID), false, nil
}

// leaves ends the ownership of the resource. Whatever has other owners is kept,
// and so is what was managed before there were any.
func (r ResourceRequest) leaves(known state) (next owner, keep bool, err error) {
	if known.owner.has(r.StackID, r.LogicalResourceID) {
		next = known.owner.without(r.StackID, r.LogicalResourceID)
		if next == owner("").with(r.StackID, before) {
			return "", true, nil
		}
		return next, next != "", nil
	}
	next = known.owner.without(r.StackID, before)
	return next, next != "", nil
}

func namespaceID(ctx context.Context, repo limiter.Repository, name string) (string, error) {
	for ns, err := range repo.Namespaces(ctx) {
		if err != nil {
			return "", err
		}
		if ns.Name == name && ns.DeletedAt.IsZero() {
			return ns.ID, nil
		}
	}
	return "", fmt.Errorf("namespace %q: %w; `zae-limiter namespace register %s` makes it", name, limiter.ErrNotFound, name)
}
