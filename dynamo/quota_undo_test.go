package dynamo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// The undo of a charge that was not admitted gives tokens back to the window that
// paid them. After a boundary it reverts the usage alone: here the parent refuses, and
// others begin the next window and spend it before the undo arrives.
func TestAnUndoGivesNothingToTheNextWindow(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, limiter.Quota("rpm", 10, limiter.EveryHour))
	project := limiter.Config{
		Scope:  limiter.Scope{Entity: "project", Resource: model},
		Limits: []limiter.Limit{limiter.Quota("rpm", 1000, limiter.EveryHour)},
	}
	must(t, s.steady.SetConfig(t.Context(), project, auditEvent("limits_set")))
	createChild(t, s.steady, "alice", "project")
	consume(t, s.repo, 0, chargeOf("alice", 1), true)
	consume(t, s.steady, 0, chargeOf("project", 999), true)
	f, held, goOn := holdRequest()
	s.proxy.SetPlan(dynamotest.First(1, transact, f))
	refused := startCharge(t, s.repo, 50*time.Minute, 5)
	<-held
	const next = 51 * time.Minute // start is 9 minutes past
	consume(t, s.steady, next, chargeOf("alice", 10), true)
	close(goOn)
	if out := <-refused; out.Admitted {
		t.Error("admitted")
	}
	consume(t, s.steady, next, chargeOf("alice", 1), false)
	for name, it := range dynamotest.Scan(t, s.table) {
		if !strings.HasSuffix(name, "ENTITY#alice #BUCKET#gpt-4") {
			continue
		}
		if used := dynamotest.FormatAttribute(it["b_rpm_tc"]); used != "N 11000" {
			t.Errorf("usage is %s, want that of the admitted charges, 11000", used)
		}
		return
	}
	t.Error("the table has no bucket of alice")
}
