package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// describe returns the name, attributes and status of a span as one line.
func describe(span sdktrace.ReadOnlySpan) string {
	text := span.Name()
	for _, a := range span.Attributes() {
		text += " " + string(a.Key) + "=" + a.Value.String()
	}
	if s := span.Status(); s.Code == codes.Error {
		text += " failed: " + s.Description
	}
	return text
}

// ended returns the spans that have ended since the last call.
func (r *rig) ended() (lines []string) {
	for _, span := range r.spans.Ended() {
		lines = append(lines, describe(span))
	}
	r.spans.Reset()
	return lines
}

func TestSpansOfALease(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	ctx := t.Context()
	lease, err := r.lim.Acquire(ctx, limiter.Request{
		Entity: "alice", Resource: "api", Consume: limiter.Tokens("rpm", 8),
	})
	check(t, err)
	check(t, lease.Adjust(limiter.Tokens("rpm", -2)))
	check(t, lease.Commit(ctx))
	_, err = r.lim.Acquire(ctx, limiter.Request{Entity: "alice", Resource: "api", Consume: limiter.Tokens("rpm", 5)})
	if _, exceeded := errors.AsType[*limiter.ExceededError](err); !exceeded {
		t.Fatal(err)
	}
	_, err = r.lim.Acquire(ctx, limiter.Request{
		Entity: "alice", Resource: "unknown", Consume: limiter.Tokens("rpm", 1),
	})
	if !errors.Is(err, limiter.ErrNoLimits) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"zae_limiter.consume zae_limiter.resource=api zae_limiter.result=admitted",
		"zae_limiter.credit zae_limiter.resource=api zae_limiter.result=ok",
		"zae_limiter.consume zae_limiter.resource=api zae_limiter.result=refused",
		"zae_limiter.consume zae_limiter.resource=unknown zae_limiter.result=error error.type=no_limits failed: ",
	}, r.ended()); diff != "" {
		t.Error(diff)
	}
}

// TestEntitiesAreRecordedOnlyIfAsked uses every method of a repository, as the
// conformance suite does, on stores that name the entity in their errors.
func TestEntitiesAreRecordedOnlyIfAsked(t *testing.T) {
	for _, asked := range []bool{false, true} {
		r := newRig(t, newMemory(t), &telemetry.Options{RecordEntities: asked, Name: "main"})
		ctx, event := t.Context(), limiter.AuditEvent{At: epoch, Entity: "alice-secret", Action: "test"}
		charge := limiter.Charge{Entity: "alice-secret", Resource: "api", Amounts: limiter.Tokens("rpm", 1)}
		scope := limiter.Scope{Entity: "alice-secret", Resource: "api"}
		out, err := r.Consume(ctx, epoch, charge)
		check(t, err)
		_, err = r.Peek(ctx, epoch, charge)
		check(t, err)
		check(t, r.Credit(ctx, epoch, limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", 1)}))
		for range r.Buckets(ctx, epoch, scope) {
			break
		}
		_, missing := r.Entity(ctx, "alice-secret")
		_, listed, err := r.ConfigListed(ctx, scope)
		gone := r.DeleteConfig(ctx, scope, event)
		if missing == nil || gone == nil || !listed || err != nil {
			t.Fatal(missing, gone, listed, err)
		}
		charge.Amounts = limiter.Tokens("alice-secret", 1)
		if _, err := r.Consume(ctx, epoch, charge); err == nil {
			t.Fatal("an unknown limit was charged")
		}
		lines := r.ended()
		if len(lines) != 8 {
			t.Errorf("%d spans: %q", len(lines), lines)
		}
		for _, line := range lines {
			if strings.Contains(line, "alice-secret") != asked {
				t.Errorf("asked for entities: %v, recorded %s", asked, line)
			}
			if !strings.Contains(line, "zae_limiter.name=main") {
				t.Errorf("%s has no name", line)
			}
		}
		for name, m := range r.metrics(t) {
			if strings.Contains(fmt.Sprint(m), "alice-secret") {
				t.Errorf("%s has the entity: %v", name, m)
			}
		}
	}
}

func TestErrorsOfTheStoreAreOutages(t *testing.T) {
	store := repotest.NewFaulty(newMemory(t), func(method string) repotest.Fault {
		if method == "Consume" || method == "Buckets" {
			return repotest.After
		}
		return repotest.None
	})
	r := newRig(t, store, nil)
	if _, err := r.Consume(t.Context(), epoch, refused); !errors.Is(err, repotest.ErrInjected) {
		t.Error(err)
	}
	for _, err := range r.Buckets(t.Context(), epoch, limiter.Scope{}) {
		if err != nil && !errors.Is(err, repotest.ErrInjected) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{
		"zae_limiter.consume zae_limiter.resource=api zae_limiter.result=error error.type=unavailable failed: ",
		"zae_limiter.buckets zae_limiter.result=error error.type=unavailable failed: ",
		"zae_limiter.ping zae_limiter.result=error error.type=canceled failed: ",
	}, r.ended()); diff != "" {
		t.Error(diff)
	}
}

// TestSpanEndsWithItsLoop checks that a loop that is left early, or that panics,
// ends its span.
func TestSpanEndsWithItsLoop(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	for range r.Namespaces(t.Context()) {
		break
	}
	func() {
		defer func() { _ = recover() }()
		for range r.Namespaces(t.Context()) {
			panic("in the body")
		}
	}()
	if lines := r.ended(); len(lines) != 2 || len(r.spans.Started()) != 0 {
		t.Errorf("%q have ended", lines)
	}
}
