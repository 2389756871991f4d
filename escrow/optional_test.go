package escrow_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// full is a store with every optional interface.
type full struct{ *memory.Repository }

var errTooMany = errors.New("too many scopes")

// ConfigListed reports that nothing is listed.
func (full) ConfigListed(_ context.Context, s limiter.Scope) (limiter.Config, bool, error) {
	return limiter.Config{Scope: s}, false, nil
}

// CheckManaged refuses all scopes.
func (full) CheckManaged([]limiter.Scope) error { return errTooMany }

// plain is a store without optional interfaces.
type plain struct{ limiter.Repository }

// Namespace returns a view without optional interfaces.
func (p plain) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := p.Repository.Namespace(ctx, name)
	return plain{view}, err
}

// optional holds a check for each optional interface of a store: with has it, and a
// Repository around without behaves as if it had none.
var optional = map[string]func(t *testing.T, store limiter.Repository, with, without *escrow.Repository){
	"NamespaceIdentifier": func(t *testing.T, store limiter.Repository, with, without *escrow.Repository) {
		t.Helper()
		if got, want := with.NamespaceID(), store.(limiter.NamespaceIdentifier).NamespaceID(); got != want ||
			got == "" {
			t.Errorf("the ID is %q, and that of the store %q", got, want)
		}
		_, err := without.RegisterNamespace(t.Context(), time.Now(), "other")
		must(t, err)
		view, err := without.Namespace(t.Context(), "other")
		must(t, err)
		// Callers of a limiter take the name for an ID then.
		if got := view.(*escrow.Repository).NamespaceID(); without.NamespaceID() != "" || got != "other" {
			t.Errorf("without IDs they are %q and %q", without.NamespaceID(), got)
		}
	},
	"ManagedStore": func(t *testing.T, _ limiter.Repository, with, without *escrow.Repository) {
		t.Helper()
		scopes := []limiter.Scope{{Resource: "gpt-4"}}
		must(t, with.SetManaged(t.Context(), time.Now(), "", "hash", "owner", scopes))
		got, hash, owner, err := with.Managed(t.Context())
		must(t, err)
		if !slices.Equal(got, scopes) || hash != "hash" || owner != "owner" {
			t.Errorf("managed are %v, %q and %q", got, hash, owner)
		}
		cfg := limiter.Config{Scope: scopes[0], Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}}
		must(t, with.ReplaceConfig(t.Context(), cfg, limiter.AuditEvent{ID: "01", At: time.Now()}))
		stored, err := with.Config(t.Context(), scopes[0])
		must(t, err)
		if !slices.Equal(stored.Limits, cfg.Limits) {
			t.Errorf("the limits are %v", stored.Limits)
		}
		_, _, _, err = without.Managed(t.Context())
		for _, err := range []error{
			err, without.SetManaged(t.Context(), time.Now(), "", "hash", "owner", scopes),
			without.ReplaceConfig(t.Context(), cfg, limiter.AuditEvent{}),
		} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("error %v, want errors.ErrUnsupported", err)
			}
		}
	},
	"ConfigLister": func(t *testing.T, _ limiter.Repository, with, without *escrow.Repository) {
		t.Helper()
		_, listed, err := with.ConfigListed(t.Context(), limiter.Scope{})
		must(t, err)
		_, complete, err := without.ConfigListed(t.Context(), limiter.Scope{})
		must(t, err)
		if listed || !complete {
			t.Errorf("listed %v with it, and %v without", listed, complete)
		}
	},
	"ManagedChecker": func(t *testing.T, _ limiter.Repository, with, without *escrow.Repository) {
		t.Helper()
		if err := with.CheckManaged(nil); !errors.Is(err, errTooMany) {
			t.Errorf("error %v, want that of the store", err)
		}
		must(t, without.CheckManaged(nil))
	},
	"StatisticsReporter": func(t *testing.T, _ limiter.Repository, with, without *escrow.Repository) {
		t.Helper()
		names := func(r *escrow.Repository) (own, stores int) {
			for s := range r.Statistics() {
				if strings.HasPrefix(s.Name, "escrow.") {
					own++
				} else {
					stores++
				}
			}
			return own, stores
		}
		own, stores := names(with)
		if alone, none := names(without); own == 0 || stores == 0 || alone != own || none != 0 {
			t.Errorf("%d values and %d of the store; without those, %d and %d", own, stores, alone, none)
		}
	},
}

// A Repository forwards each optional interface that optional.go documents.
func TestOptionalInterfaces(t *testing.T) {
	source, err := os.ReadFile("../optional.go")
	must(t, err)
	documented := regexp.MustCompile(
		`(?m)^// (\w+) is an optional interface of`,
	).FindAllStringSubmatch(string(source), -1)
	if len(documented) != len(optional) {
		t.Errorf("optional.go documents %d optional interfaces, and %d are tested", len(documented), len(optional))
	}
	for _, match := range documented {
		t.Run(match[1], func(t *testing.T) {
			check := optional[match[1]]
			if check == nil {
				t.Fatal("not tested")
			}
			store := full{memory.New(nil)}
			with, without := escrow.New(store, nil), escrow.New(plain{memory.New(nil)}, nil)
			check(t, store, with, without)
			must(t, with.Close())
			must(t, without.Close())
		})
	}
}
