package interop

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// program is a service that uses the table, in either language. Whatever fails
// ends its test; a refusal is no failure.
type program interface {
	take(entity, resource string, amounts limiter.Amounts) (admitted bool) // acquires and commits
	hold(entity, resource string, amounts limiter.Amounts) held            // acquires, which must succeed
	left(entity, resource string) map[string]int64                         // what the entity alone could take
	set(s limiter.Scope, limits ...limiter.Limit)
	unset(s limiter.Scope)
	create(e limiter.Entity)
	remove(entity string)
	namespaces
}

// namespaces is the part of a program that administers them.
type namespaces interface {
	register(name string) (id string)
	deleteSpace(name string)
	recoverSpace(id string)
	purgeSpace(id string)
}

// held is a lease that is open.
type held interface {
	commit(more limiter.Amounts) // adjusted by more, which may be negative
	rollback()
}

// goProgram is a program with this library.
type goProgram struct {
	*testing.T
	lim *limiter.RateLimiter
}

func (g goProgram) end(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func requestOf(entity, resource string, amounts limiter.Amounts) limiter.Request {
	return limiter.Request{Entity: entity, Resource: resource, Consume: amounts}
}

func (g goProgram) take(entity, resource string, amounts limiter.Amounts) bool {
	g.Helper()
	lease, err := g.lim.Acquire(g.Context(), requestOf(entity, resource, amounts))
	if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
		return false
	}
	g.end(err)
	g.end(lease.Commit(g.Context()))
	return true
}

func (g goProgram) hold(entity, resource string, amounts limiter.Amounts) held {
	g.Helper()
	lease, err := g.lim.Acquire(g.Context(), requestOf(entity, resource, amounts))
	g.end(err)
	return goHeld{g, lease}
}

func (g goProgram) left(entity, resource string) map[string]int64 {
	g.Helper()
	amounts, err := g.lim.Available(g.Context(), entity, resource)
	g.end(err)
	return maps.Collect(amounts.All())
}

func (g goProgram) set(s limiter.Scope, limits ...limiter.Limit) {
	g.Helper()
	switch {
	case s.Entity != "":
		g.end(g.lim.SetLimits(g.Context(), s.Entity, s.Resource, limits...))
	case s.Resource != "":
		g.end(g.lim.SetResourceDefaults(g.Context(), s.Resource, limits...))
	default:
		g.end(g.lim.SetSystemDefaults(g.Context(), limits...))
	}
}

func (g goProgram) unset(s limiter.Scope) {
	g.Helper()
	switch {
	case s.Entity != "":
		g.end(g.lim.DeleteLimits(g.Context(), s.Entity, s.Resource))
	case s.Resource != "":
		g.end(g.lim.DeleteResourceDefaults(g.Context(), s.Resource))
	default:
		g.end(g.lim.DeleteSystemDefaults(g.Context()))
	}
}

func (g goProgram) create(e limiter.Entity) {
	g.Helper()
	_, err := g.lim.CreateEntity(g.Context(), e)
	g.end(err)
}

func (g goProgram) remove(entity string) {
	g.Helper()
	g.end(g.lim.DeleteEntity(g.Context(), entity))
}

func (g goProgram) register(name string) string {
	g.Helper()
	made, err := g.lim.RegisterNamespaces(g.Context(), name)
	g.end(err)
	return made[0].ID
}

func (g goProgram) deleteSpace(name string) {
	g.Helper()
	g.end(g.lim.DeleteNamespace(g.Context(), name))
}

func (g goProgram) recoverSpace(id string) {
	g.Helper()
	_, err := g.lim.RecoverNamespace(g.Context(), id)
	g.end(err)
}

func (g goProgram) purgeSpace(id string) {
	g.Helper()
	g.end(g.lim.PurgeNamespace(g.Context(), id))
}

type goHeld struct {
	goProgram
	lease *limiter.Lease
}

func (h goHeld) commit(more limiter.Amounts) {
	h.Helper()
	h.end(h.lease.Adjust(more))
	h.end(h.lease.Commit(h.Context()))
}

func (h goHeld) rollback() {
	h.Helper()
	h.end(h.lease.Rollback(h.Context()))
}

// tokensOf is the limit whose tokens an attribute of a bucket holds.
func tokensOf(attribute string) (limit string, ok bool) {
	rest, begins := strings.CutPrefix(attribute, "b_")
	limit, ends := strings.CutSuffix(rest, "_tk")
	return limit, begins && ends
}

func numberIn(t *testing.T, v types.AttributeValue) int64 {
	t.Helper()
	n, err := strconv.ParseInt(v.(*types.AttributeValueMemberN).Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
