package interop

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// pyProgram is a program with the Python library.
type pyProgram struct {
	*testing.T
	repo *peerRepo
}

func (p pyProgram) call(op string, args map[string]any, result any) {
	p.Helper()
	p.repo.must(p.T, op, args, result)
}

func (p pyProgram) take(entity, resource string, amounts limiter.Amounts) bool {
	p.Helper()
	_, err := p.repo.acquire(entity, resource, amounts, peerEnd{})
	if failure, ok := errors.AsType[*peerError](err); ok && failure.Type == "RateLimitExceeded" {
		return false
	}
	if err != nil {
		p.Fatal(err)
	}
	return true
}

func (p pyProgram) hold(entity, resource string, amounts limiter.Amounts) openLease {
	p.Helper()
	lease, err := p.repo.begin(entity, resource, amounts)
	if err != nil {
		p.Fatal(err)
	}
	return pyLease{p, lease}
}

func (p pyProgram) left(entity, resource string) map[string]int64 {
	p.Helper()
	return p.repo.available(p.T, entity, resource)
}

func (p pyProgram) set(s limiter.Scope, limits ...limiter.Limit) {
	p.Helper()
	switch {
	case s.Entity != "":
		p.repo.setLimits(p.T, s.Entity, pyResource(s), limits...)
	case s.Resource != "":
		p.repo.setResourceDefaults(p.T, s.Resource, limits...)
	default:
		p.repo.setSystemDefaults(p.T, "", limits...)
	}
}

// pyResource returns Python's name for the resource of an entity's limits.
func pyResource(s limiter.Scope) string {
	if s.Resource == "" {
		return "_default_"
	}
	return s.Resource
}

func (p pyProgram) unset(s limiter.Scope) {
	p.Helper()
	switch {
	case s.Entity != "":
		p.call("delete_limits", map[string]any{"entity_id": s.Entity, "resource": pyResource(s)}, nil)
	case s.Resource != "":
		p.call("delete_resource_defaults", map[string]any{"resource": s.Resource}, nil)
	default:
		p.call("delete_system_defaults", nil, nil)
	}
}

func (p pyProgram) create(e limiter.Entity) {
	p.Helper()
	p.repo.createEntity(p.T, e)
}

func (p pyProgram) remove(entity string) {
	p.Helper()
	p.call("delete_entity", map[string]any{"entity_id": entity}, nil)
}

func (p pyProgram) register(name string) (id string) {
	p.Helper()
	p.call("register_namespace", map[string]any{"namespace": name}, &id)
	return id
}

func (p pyProgram) deleteNamespace(name string) {
	p.Helper()
	p.call("delete_namespace", map[string]any{"namespace": name}, nil)
}

func (p pyProgram) recoverNamespace(id string) {
	p.Helper()
	p.call("recover_namespace", map[string]any{"namespace_id": id}, nil)
}

func (p pyProgram) purgeNamespace(id string) {
	p.Helper()
	p.call("purge_namespace", map[string]any{"namespace_id": id}, nil)
}

type pyLease struct {
	pyProgram
	lease peerLease
}

func (h pyLease) commit(more limiter.Amounts) {
	h.Helper()
	h.end(peerEnd{Adjust: more})
}

func (h pyLease) rollback() {
	h.Helper()
	h.end(peerEnd{Rollback: true})
}

func (h pyLease) end(how peerEnd) {
	h.Helper()
	if err := h.repo.end(h.lease, how); err != nil {
		h.Fatal(err)
	}
}
