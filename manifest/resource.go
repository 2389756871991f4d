package manifest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// ResourceRequest is a request of CloudFormation for a custom resource.
type ResourceRequest struct {
	RequestType        string // Create, Update or Delete
	ResponseURL        string // where to PUT the answer
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	PhysicalResourceID string `json:"PhysicalResourceId"` // "" for Create
	ResourceProperties map[string]any
}

// ResourceAnswer is the response to CloudFormation.
type ResourceAnswer struct {
	Status             string // SUCCESS or FAILED
	Reason             string `json:",omitempty"` // why it failed
	PhysicalResourceID string `json:"PhysicalResourceId"`
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	Data               *ResourceData
}

// ResourceData counts the changes of an apply. CloudFormation limits the size of
// an answer, so it does not list them.
type ResourceData struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Deleted   int `json:"deleted"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
}

// The statuses and the size of an answer that CloudFormation accepts.
const (
	succeeded, failed = "SUCCESS", "FAILED"
	maxAnswer         = 4096 // bytes
)

// failedID is the physical ID of a resource that was never created.
const failedID = "failed"

// answerTime is reserved before the deadline for storing the state and sending
// the answer. Without an answer, CloudFormation waits for an hour.
const answerTime = 20 * time.Second

// handleResource handles a request of CloudFormation. The answer holds the error
// if there is one.
func (p *Provisioner) handleResource(ctx context.Context, r ResourceRequest) *ResourceAnswer {
	if deadline, ok := ctx.Deadline(); ok {
		reserve := min(answerTime, time.Until(deadline)/2)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}

	a := &ResourceAnswer{
		Status: succeeded, PhysicalResourceID: cmp.Or(r.PhysicalResourceID, failedID),
		StackID: r.StackID, RequestID: r.RequestID, LogicalResourceID: r.LogicalResourceID, Data: &ResourceData{},
	}

	handle := p.setResource
	switch r.RequestType {
	case "Create", "Update":
	case "Delete":
		handle = p.deleteResource
	default:
		handle = func(context.Context, ResourceRequest, *ResourceAnswer) error {
			return fmt.Errorf("RequestType is %q, but must be Create, Update or Delete", r.RequestType)
		}
	}

	if err := handle(ctx, r, a); err != nil {
		a.Status, a.Reason = failed, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return a
}

// setResource applies the manifest in the properties. If that fails, the answer
// has the physical ID of the namespace only if the resource owns all managed
// limits there. A later delete then removes its limits and no others.
func (p *Provisioner) setResource(ctx context.Context, r ResourceRequest, a *ResourceAnswer) error {
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

	if m.Namespace, err = namespaceName(ctx, repo, m.Namespace, property(propertyNamespaceID)); err != nil {
		return err
	}

	id, err := namespaceID(ctx, repo, m.Namespace)
	if err != nil {
		return err
	}

	owned, err := p.applyFor(ctx, repo, m, r, a, r.takeOwnership)
	if owned || err == nil {
		a.PhysicalResourceID = strings.Join([]string{table, id, provisionerName}, "/")
	}
	return err
}

// deleteResource deletes the managed limits in the namespace of a physical ID,
// if the resource is the only owner or there is none. It succeeds if the
// namespace does not exist.
func (p *Provisioner) deleteResource(ctx context.Context, r ResourceRequest, a *ResourceAnswer) error {
	// A resource that was never created has another ID, and left nothing
	// behind.
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

	name, err := namespaceName(ctx, repo, "", parts[1])
	if err == nil {
		_, err = p.applyFor(ctx, repo, &Manifest{Namespace: name}, r, a, r.releaseOwnership)
	}
	if errors.Is(err, limiter.ErrNotFound) {
		return nil
	}
	return err
}

// applyFor applies a manifest on behalf of the stack. It reports whether the
// resource owns all managed limits.
func (p *Provisioner) applyFor(
	ctx context.Context, repo limiter.Repository, m *Manifest, r ResourceRequest, a *ResourceAnswer,
	ownership func(state) (owner, bool, error),
) (owned bool, err error) {
	opts := &Options{Now: p.Now, Principal: provisionerName, ownership: ownership}
	if strings.HasPrefix(r.StackID, "arn:") {
		opts.Principal = r.StackID
	}

	plan, report, err := Apply(ctx, repo, m, opts)
	if report == nil {
		return false, err
	}

	*a.Data = ResourceData{
		report.Count(Create), report.Count(Update), report.Count(Delete), report.Same, len(report.Failed()),
	}
	// If nothing was managed before, all that is managed comes from this
	// resource. After a takeover, it comes from another apply.
	takenOver := errors.Is(err, errTakenOver)
	owned = !takenOver && (len(plan.known.scopes) == 0 || report.owner.has(r.StackID, r.LogicalResourceID))
	return owned, errors.Join(reportError(report), err)
}

// takeOwnership makes the resource an owner. It fails if another stack owns the
// limits.
func (r ResourceRequest) takeOwnership(known state) (next owner, ownerOnly bool, err error) {
	if stack := known.owner.stack(); stack != "" && stack != r.StackID && len(known.scopes) > 0 {
		return "", false, fmt.Errorf(
			"stack %s manages the limits of this namespace; delete them there, or take them over with "+
				"`zae-limiter limits apply`, and try again (to continue a rollback, use --resources-to-skip)", stack)
	}

	next = known.owner
	// CloudFormation deletes a resource whose create is rolled back. The name
	// of the prior manager keeps that delete from being the last one, so the
	// limits that were there stay.
	if next == "" && len(known.scopes) > 0 && r.RequestType == "Create" {
		next = next.with(r.StackID, priorManager)
	}
	return next.with(r.StackID, r.LogicalResourceID), false, nil
}

// releaseOwnership ends the ownership of the resource. Limits with other owners
// are kept, and so are limits that were managed before they had an owner.
func (r ResourceRequest) releaseOwnership(known state) (next owner, ownerOnly bool, err error) {
	if known.owner.has(r.StackID, r.LogicalResourceID) {
		next = known.owner.without(r.StackID, r.LogicalResourceID)
		// No resource is left but the prior manager, so the limits stay without
		// an owner.
		if next == owner("").with(r.StackID, priorManager) {
			return "", true, nil
		}

		return next, next != "", nil
	}

	// The resource is no owner, but may be the prior manager, whose name goes.
	// Any owner that is left keeps the limits.
	next = known.owner.without(r.StackID, priorManager)
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
	return "", fmt.Errorf("namespace %q: %w; `zae-limiter namespace register %s` creates it", name,
		limiter.ErrNotFound, name)
}

// body encodes the answer as JSON. It shortens the reason to the allowed size.
func (a *ResourceAnswer) body() ([]byte, error) {
	for {
		body, err := json.Marshal(a)
		// Escapes make the length of the JSON hard to predict, so the reason
		// loses a quarter at a time.
		if err != nil || len(body) <= maxAnswer || a.Reason == "" {
			return body, err
		}
		a.Reason = strings.ToValidUTF8(a.Reason[:len(a.Reason)*3/4], "")
	}
}

// send sends the answer to CloudFormation, with retries.
func (a *ResourceAnswer) send(ctx context.Context, client *http.Client, to string) error {
	if client == nil {
		client = &http.Client{Timeout: 5 * time.Second}
	}

	body, err := a.body()
	if err != nil {
		return err
	}

	const maxTries = 4
	for try := 1; ; try++ {
		retry, err := put(ctx, client, to, body)
		if err == nil || !retry || try == maxTries {
			return err
		}

		// The pauses are 0.5, 1 and 2 seconds.
		if pause.For(ctx, time.Second<<(try-1)/2) != nil {
			return err
		}
	}
}

// put sends the body once. It sets no content type, since that would not match
// the signature of the URL.
func put(ctx context.Context, client *http.Client, to string, body []byte) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("sending the answer to CloudFormation: ResponseURL is not a valid URL")
	}

	reply, err := client.Do(req)
	if err != nil {
		// The URL is a secret: with its signature anyone could answer.
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return true, fmt.Errorf("sending the answer to CloudFormation: %w", err)
	}
	_ = reply.Body.Close() // the body is not used

	if reply.StatusCode/100 == 2 {
		return false, nil
	}

	retry = reply.StatusCode >= 500 || reply.StatusCode == http.StatusRequestTimeout ||
		reply.StatusCode == http.StatusTooManyRequests
	return retry, fmt.Errorf("sending the answer to CloudFormation: status %s", reply.Status)
}
