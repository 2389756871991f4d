package escrow_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestExemptAncestorClosesPots checks that a change of an ancestor that pays nothing
// applies at once, although no pot has its account.
func TestExemptAncestorClosesPots(t *testing.T) {
	for name, change := range map[string]func(*limiter.RateLimiter) error{
		"a switch": func(lim *limiter.RateLimiter) error {
			return lim.Disable(t.Context(), limiter.Scope{Entity: "team"}, "")
		},
		"limits": func(lim *limiter.RateLimiter) error {
			return lim.SetLimits(t.Context(), "team", "", limiter.PerDay("rpm", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := escrow.New(memory.New(nil), nil)
			defer func() { _ = repo.Close() }()
			now := time.Now()
			lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return now }})
			must(t, err)
			must(t, lim.SetResourceDefaults(t.Context(), "gpt-4", limiter.PerDay("rpm", 100_000)))
			must(t, lim.SetLimits(t.Context(), "org", "", limiter.PerDay("rpm", 100_000)))
			for id, parent := range map[string]string{"key": "project", "project": "team", "team": "org"} {
				_, err := lim.CreateEntity(t.Context(), limiter.Entity{ID: id, Parent: parent, Cascade: true})
				must(t, err)
			}

			req := limiter.Request{Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 10)}
			for range 200 {
				_, err := lim.Acquire(t.Context(), req)
				must(t, err)
			}

			must(t, change(lim))
			_, err = lim.Acquire(t.Context(), req)
			_, disabled := errors.AsType[*limiter.DisabledError](err)
			if _, exceeded := errors.AsType[*limiter.ExceededError](err); !disabled && !exceeded {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}
