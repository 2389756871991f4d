package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// settle is how long a new aggregator is watched: a mistake in its settings ends
// it at once.
const settle = 500 * time.Millisecond

// stopAggregators stops the aggregators of the engine that still run.
func (e *Engine) stopAggregators(ctx context.Context) error {
	var failed []error
	for _, p := range e.Aggregators {
		failed = append(failed, p.Stop(ctx))
	}
	return errors.Join(failed...)
}

// replace writes the record of a new engine. It first stops the aggregators of the
// engine before it at this port, which would be in no record otherwise.
func (f *Folder) replace(ctx context.Context, e *Engine) error {
	if before, err := f.Load(e.Port); err == nil {
		if err := before.stopAggregators(ctx); err != nil {
			return err
		}
	}
	return f.Save(e)
}

// Aggregate starts a program that counts the usage of a table beside the engine,
// and records it, so that Down stops it too. It reports false if one runs already.
// The caller holds the lock.
func (f *Folder) Aggregate(ctx context.Context, e *Engine, table string, program *exec.Cmd) (bool, error) {
	if p, ok := e.Aggregators[table]; ok && p.Alive() {
		return false, nil
	}

	log := f.LogOf(e, table)
	d, err := f.startDaemon(program, log)
	if err != nil {
		return false, err
	}

	if e.Aggregators == nil {
		e.Aggregators = map[string]Process{}
	}
	e.Aggregators[table] = d.Process
	// The record comes first, so that a killed program leaves no unknown
	// process.
	if err = f.Save(e); err == nil {
		select {
		case <-d.exited:
			err = fmt.Errorf("the aggregator ended at once: %s", strings.Join(tail(log, 1), ""))
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(settle):
			return true, nil
		}
	}

	delete(e.Aggregators, table)
	return false, errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
}
