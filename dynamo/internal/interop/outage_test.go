package interop

import (
	"errors"
	"net/http"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// deny is an outage after which no client retries.
var deny = dynamotest.Fault{Name: "deny", Act: func(x *dynamotest.Exchange) {
	x.Answer(dynamotest.Failure(http.StatusBadRequest, "AccessDeniedException", `"message":"User is not authorized"`))
}}

// TestInteropModeInAnOutageIsShared checks that each library obeys the outage
// mode that the other stored.
func TestInteropModeInAnOutageIsShared(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for _, mode := range []limiter.OnUnavailable{limiter.Allow, limiter.Block} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			lines := dynamotest.NewProxy(t, nil)
			far := w.anotherGo(&dynamo.Options{AWS: dynamotest.Config(lines.URL)})
			py := w.openPython(p, map[string]any{"endpoint_url": lines.URL, "config_cache_ttl": 60})
			limit := limiter.PerMinute("rpm", 10)
			t.Run("stored by Go", func(t *testing.T) {
				w.ours.set(limiter.Scope{}, limit)
				w.Must(w.ours.lim.SetOnUnavailable(t.Context(), mode))
				w.mustAdmit(py, "alice", rpm(1))
				lines.SetPlan(dynamotest.Always(deny))
				defer lines.SetPlan(nil)
				lease, err := py.repo.acquire("alice", "gpt-4", rpm(1), peerEnd{})
				if failure, ok := errors.AsType[*peerError](err); mode == limiter.Block && (!ok ||
					failure.Type != "RateLimiterUnavailable") {
					t.Errorf("got %+v, %v, want unavailable", lease, err)
				}
				if mode == limiter.Allow && (err != nil || len(lease.Entries) != 0) {
					t.Errorf("got %+v, %v, want to be waved through", lease, err)
				}
			})
			t.Run("stored by Python", func(t *testing.T) {
				py.repo.setSystemDefaults(t, string(mode), limit)
				w.mustAdmit(far, "alice", rpm(1))
				lines.SetPlan(dynamotest.Always(deny))
				defer lines.SetPlan(nil)
				lease, err := far.lim.Acquire(t.Context(), requestOf("alice", "gpt-4", rpm(1)))
				if _, ok := errors.AsType[*limiter.UnavailableError](err); mode == limiter.Block && !ok {
					t.Errorf("error %v, want unavailable", err)
				}
				if mode == limiter.Allow && (err != nil || lease.Outage() == nil) {
					t.Errorf("error %v, want to be waved through", err)
				}
			})
			w.checkTokens("alice", map[string]int64{"rpm": 8_000})
		})
	}
}
