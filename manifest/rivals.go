package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// ErrStale says that another apply was faster, so that a plan is no longer
// right. Nothing was changed.
var ErrStale = errors.New("another apply has changed what is managed since the plan was made; plan again")

// errTaken says that another apply did not believe that this one was alive.
var errTaken = new(takenError)

// takenError is errTaken with what had been made by then. It matches
// ErrConflict, and errTaken.
type takenError struct{ made, of int }

func (e *takenError) Error() string {
	done := ""
	if e.of > 0 {
		done = fmt.Sprintf(", after %d of %d changes", e.made, e.of)
	}
	return "another apply took over while this one was at work" + done + "; apply again"
}

// Is tells what it matches.
func (e *takenError) Is(target error) bool {
	return target == limiter.ErrConflict || target == error(errTaken)
}

func (s state) claimed() bool { return strings.HasPrefix(s.hash, claimPrefix) }

// await waits until no other apply is at work. The claim of one that is dead is
// ended in its name: it may have written anything that it listed.
func (t *target) await(ctx context.Context, known state) error {
	t.Waiting()
	for idle := time.Duration(0); known.claimed(); idle += pollEvery {
		if idle >= deadAfter {
			dead := &claim{target: t, held: known}
			if err := dead.swap(ctx, state{known.scopes, partialPrefix + rand.Text(), known.owner}); !errors.Is(err, errTaken) {
				return err
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
		next, err := t.state(ctx)
		if err != nil {
			return err
		}
		if next.hash != known.hash {
			known, idle = next, 0
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
