package loadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The loop polls every five seconds, gives each worker its deadline, survives
// failures of the master and of invocations, and ends when idle.
func TestOrchestrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, polls, deadlines := time.Now(), 0, []time.Duration{}
		var failed []error
		err := Orchestrate(t.Context(), OrchestrateOptions{
			OrchestratorOptions: OrchestratorOptions{MinWorkers: 2, IdleTimeout: time.Minute},
			Stats: func(context.Context) (MasterStats, error) {
				polls++
				switch {
				case polls == 1:
					return MasterStats{}, errors.New("no master yet")
				case polls < 5:
					return *master("running", 20, "w0"), nil
				}
				return *master("stopped", 0, "w0", "w1"), nil
			},
			Invoke: func(_ context.Context, deadline time.Time) (string, error) {
				if len(deadlines) == 1 && polls == 1 {
					return "", errors.New("throttled")
				}
				deadlines = append(deadlines, time.Until(deadline))
				return fmt.Sprint("w", len(deadlines)-1), nil
			},
			Report: func(_ Decision, err error) {
				if err != nil {
					failed = append(failed, err)
				}
			},
		})
		if took := time.Since(began); err != nil || took != 75*time.Second {
			t.Errorf("%v after %v; want the end after a minute without a test", err, took)
		}
		if len(deadlines) != 2 || deadlines[0] != 30*time.Second {
			t.Errorf("workers were invoked with the deadlines %v; want two of 30 s", deadlines)
		}
		if len(failed) != 1 || failed[0].Error() != "no master yet\nthrottled" {
			t.Errorf("it reported %q", failed)
		}
	})
}

func TestOrchestrateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		invoked := 0
		err := Orchestrate(ctx, OrchestrateOptions{
			Stats: func(ctx context.Context) (MasterStats, error) { return *master("running", 10), ctx.Err() },
			Invoke: func(context.Context, time.Time) (string, error) {
				invoked++
				return "", nil
			},
		})
		if !errors.Is(err, context.DeadlineExceeded) || invoked != 1 {
			t.Errorf("%v after %d invocations", err, invoked)
		}
	})
}
