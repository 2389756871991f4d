package escrow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// busyPurge is a store whose purges call during meanwhile.
type busyPurge struct {
	*memory.Repository
	during func()
}

// PurgeNamespace purges.
func (s *busyPurge) PurgeNamespace(ctx context.Context, id string) error {
	s.during()
	return s.Repository.PurgeNamespace(ctx, id)
}

// A change of a namespace leaves the pots of others alone. A purge forgets the pots
// of its namespace, and keeps what they counted.
func TestAPurgeConcernsItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &busyPurge{Repository: memory.New(nil)}
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		views := map[string]*escrow.Repository{}
		ids := map[string]string{}
		for _, name := range []string{"kept", "purged"} {
			n, err := repo.RegisterNamespace(ctx, time.Now(), name)
			must(t, err)
			view, err := repo.Namespace(ctx, name)
			must(t, err)
			ids[name], views[name] = n.ID, view.(*escrow.Repository)
			must(t,
				view.SetConfig(ctx, limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 6000)}},
					limiter.AuditEvent{ID: "01", At: time.Now()}))
			for range 3 {
				_, err := view.Consume(ctx, time.Now(), chargeOf(10))
				must(t, err)
			}
		}
		if s := repo.Stats(); s.AdmittedLocally != 2 || s.Pots != 2 {
			t.Fatalf("%+v", s)
		}
		must(t, repo.DeleteNamespace(ctx, time.Now(), "purged"))
		store.during = func() {
			_, err := views["kept"].Consume(ctx, time.Now(), chargeOf(10)) // takes an extra
			must(t, err)
			_, err = views["kept"].Consume(ctx, time.Now(), chargeOf(10))
			must(t, err)
		}
		must(t, repo.PurgeNamespace(ctx, ids["purged"]))
		if s := repo.Stats(); s.AdmittedLocally != 3 || s.Pots != 1 {
			t.Errorf("after the purge: %+v, want one pot, and a call admitted from it meanwhile", s)
		}
	})
}
