package limiter_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestRefusalShowsWindowsAndHidesShadowLimits refuses by a quota. The whole refusal
// has the shadow limit, and the client's part does not.
func TestRefusalShowsWindowsAndHidesShadowLimits(t *testing.T) {
	noon := time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	limits := []limiter.Limit{
		limiter.Quota("tokens", 10, limiter.EveryDay).In("Europe/Berlin"), limiter.PerMinute("rpm", 1).Shadow(),
	}
	if err := lim.SetSystemDefaults(t.Context(), limits...); err != nil {
		t.Fatal(err)
	}
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "key", Resource: "api", Consume: limiter.Tokens("tokens", 11).And("rpm", 2),
	})
	refusal, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		t.Fatal(err)
	}
	whole, _ := json.Marshal(refusal)
	public, _ := json.Marshal(refusal.Public())
	for _, part := range []string{`"window":"day","zone":"Europe/Berlin"`} {
		if !strings.Contains(string(whole), part) || !strings.Contains(string(public), part) {
			t.Errorf("%s is missing in\n%s\n%s", part, whole, public)
		}
	}
	if !strings.Contains(string(whole), `"shadow":true`) || !strings.Contains(string(whole), `"would_refuse":true`) ||
		strings.Contains(string(public), "rpm") {
		t.Errorf("shadow limit: whole %s\npublic %s", whole, public)
	}
	for _, s := range refusal.Decision.Statuses {
		if want := map[string]time.Duration{"tokens": 11 * time.Hour}[s.Limit.Name]; s.WindowLeft != want {
			t.Errorf("%s: %v left of its window, want %v", s.Limit.Name, s.WindowLeft, want)
		}
	}
}
