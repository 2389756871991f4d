package manifest_test

import (
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// TestWhatMayHaveBeenWrittenIsManaged checks that a level stays managed after
// a write of unknown outcome, so that it can be deleted later.
func TestWhatMayHaveBeenWrittenIsManaged(t *testing.T) {
	for method, recorded := range map[string]bool{"Config": true, "": false} {
		repo := memory.New(nil)
		var wrote atomic.Bool
		faulty := repotest.NewFaulty(repo, func(called string) repotest.Fault {
			switch {
			case called == "ReplaceConfig":
				wrote.Store(true)
				return repotest.Before
			case called == method && wrote.Load():
				return repotest.Before
			}
			return repotest.None
		})
		_, report, err := manifest.Apply(bg, faulty, entityManifest("a", 1, 1), nil)
		check(t, err)
		equal(t, "failed", len(report.Failed()), 1)
		scopes, _ := managed(t, repo)
		equal(t, "managed, with "+method+" failing too", len(scopes) == 1, recorded)
	}
}
