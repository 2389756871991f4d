package limiter_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// bare is a repository without optional interfaces.
type bare struct{ limiter.Repository }

// wrapped is a wrapper that identifies its namespace and reports no statistics.
type wrapped struct{ limiter.Repository }

func (w wrapped) Unwrap() limiter.Repository { return w.Repository }

func (w wrapped) NamespaceID() string { return "wrapped" }

// TestOptionalLooksInside checks that a wrapper has an optional interface only if
// both the wrapper and the store have it.
func TestOptionalLooksInside(t *testing.T) {
	store := memory.New(nil)
	for _, c := range []struct {
		name                   string
		repo                   limiter.Repository
		identified, statistics bool
	}{
		{"a store", store, true, true},
		{"a store without", bare{store}, false, false},
		{"a wrapper of a store", wrapped{store}, true, false},
		{"a wrapper of a wrapper of a store", wrapped{wrapped{store}}, true, false},
		{"a wrapper of a store without", wrapped{bare{store}}, false, false},
		{"a wrapper of a wrapper of a store without", wrapped{wrapped{bare{store}}}, false, false},
	} {
		found, ok := limiter.Optional[limiter.NamespaceIdentifier](c.repo)
		if ok != c.identified || ok && found.NamespaceID() == "" || !ok && found != nil {
			t.Errorf("%s: NamespaceIdentifier %v, want %v", c.name, ok, c.identified)
		}
		if _, isWrapped := c.repo.(wrapped); isWrapped && ok && found.NamespaceID() != "wrapped" {
			t.Errorf("%s: the namespace is %q, not the wrapper's", c.name, found.NamespaceID())
		}
		if _, ok := limiter.Optional[limiter.StatisticsReporter](c.repo); ok != c.statistics {
			t.Errorf("%s: StatisticsReporter %v, want %v", c.name, ok, c.statistics)
		}
	}
}
