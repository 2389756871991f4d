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

// program is a service that uses the table, in either language. A refusal is a
// result; any other failure ends the test.
type program interface {
	take(entity, resource string, amounts limiter.Amounts) (admitted bool) // acquires and commits
	hold(entity, resource string, amounts limiter.Amounts) openLease       // acquires; a refusal is fatal
	left(entity, resource string) map[string]int64                         // available to the entity alone
	set(s limiter.Scope, limits ...limiter.Limit)
	unset(s limiter.Scope)
	create(e limiter.Entity)
	remove(entity string)
	namespaceAdmin
}

// namespaceAdmin is the part of a program that administers namespaces.
type namespaceAdmin interface {
	register(name string) (id string)
	deleteNamespace(name string)
	recoverNamespace(id string)
	purgeNamespace(id string)
}

// openLease is an open lease.
type openLease interface {
	commit(more limiter.Amounts) // adjusted by more, which may be negative
	rollback()
}

// goProgram is a program with this library.
type goProgram struct {
	*testing.T
	lim *limiter.RateLimiter
}

func (g goProgram) must(err error) {
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
	g.must(err)
	g.must(lease.Commit(g.Context()))
	return true
}

func (g goProgram) hold(entity, resource string, amounts limiter.Amounts) openLease {
	g.Helper()
	lease, err := g.lim.Acquire(g.Context(), requestOf(entity, resource, amounts))
	g.must(err)
	return goLease{g, lease}
}

func (g goProgram) left(entity, resource string) map[string]int64 {
	g.Helper()
	amounts, err := g.lim.Available(g.Context(), entity, resource)
	g.must(err)
	return maps.Collect(amounts.All())
}

func (g goProgram) set(s limiter.Scope, limits ...limiter.Limit) {
	g.Helper()
	switch {
	case s.Entity != "":
		g.must(g.lim.SetLimits(g.Context(), s.Entity, s.Resource, limits...))
	case s.Resource != "":
		g.must(g.lim.SetResourceDefaults(g.Context(), s.Resource, limits...))
	default:
		g.must(g.lim.SetSystemDefaults(g.Context(), limits...))
	}
}

func (g goProgram) unset(s limiter.Scope) {
	g.Helper()
	switch {
	case s.Entity != "":
		g.must(g.lim.DeleteLimits(g.Context(), s.Entity, s.Resource))
	case s.Resource != "":
		g.must(g.lim.DeleteResourceDefaults(g.Context(), s.Resource))
	default:
		g.must(g.lim.DeleteSystemDefaults(g.Context()))
	}
}

func (g goProgram) create(e limiter.Entity) {
	g.Helper()
	_, err := g.lim.CreateEntity(g.Context(), e)
	g.must(err)
}

func (g goProgram) remove(entity string) {
	g.Helper()
	g.must(g.lim.DeleteEntity(g.Context(), entity))
}

func (g goProgram) register(name string) string {
	g.Helper()
	made, err := g.lim.RegisterNamespaces(g.Context(), name)
	g.must(err)
	return made[0].ID
}

func (g goProgram) deleteNamespace(name string) {
	g.Helper()
	g.must(g.lim.DeleteNamespace(g.Context(), name))
}

func (g goProgram) recoverNamespace(id string) {
	g.Helper()
	_, err := g.lim.RecoverNamespace(g.Context(), id)
	g.must(err)
}

func (g goProgram) purgeNamespace(id string) {
	g.Helper()
	g.must(g.lim.PurgeNamespace(g.Context(), id))
}

type goLease struct {
	goProgram
	lease *limiter.Lease
}

func (h goLease) commit(more limiter.Amounts) {
	h.Helper()
	h.must(h.lease.Adjust(more))
	h.must(h.lease.Commit(h.Context()))
}

func (h goLease) rollback() {
	h.Helper()
	h.must(h.lease.Rollback(h.Context()))
}

// tokensLimit returns the limit whose tokens a bucket attribute holds.
func tokensLimit(attribute string) (limit string, ok bool) {
	rest, begins := strings.CutPrefix(attribute, "b_")
	limit, ends := strings.CutSuffix(rest, "_tk")
	return limit, begins && ends
}

func parseNumber(t *testing.T, v types.AttributeValue) int64 {
	t.Helper()
	n, err := strconv.ParseInt(v.(*types.AttributeValueMemberN).Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
