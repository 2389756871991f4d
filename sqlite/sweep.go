package sqlite

import (
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// sweeper removes expired rows, some of them each time.
type sweeper struct {
	machine *rules.Machine
	next    int64 // when the next sweep is due, in the callers' milliseconds
	last    int64 // ID of the last bucket visited
}

const (
	sweepEvery = 1000 // milliseconds
	sweepPart  = 1000 // rows
)

// due reports whether a sweep is due after a batch, and returns the time up to
// which to sweep.
func (s *sweeper) due(batch []*queuedWrite) (horizon int64, due bool) {
	now := batch[0].now
	for _, q := range batch {
		now = max(now, q.now)
	}

	// Calls without a time, such as a purge, plan nothing. A sweep that is
	// planned more than a day ahead comes from a clock far ahead, and does not
	// count.
	if now <= 0 || now < s.next && now > s.next-rules.SweepJump {
		return 0, false
	}

	s.next = now + sweepEvery
	return s.machine.Horizon(now), true
}

// run sweeps all tables. It skips damaged rows. If the database fails, so does
// the transaction.
func (s *sweeper) run(t *tx, now int64) {
	// Clients whose clocks differ by less than the margin find the same
	// buckets.
	_ = s.buckets(t, now-rules.SweepMargin)
	for _, table := range []string{"usage", "audit"} {
		_, _ = t.exec("DELETE FROM "+table+" WHERE rowid IN (SELECT rowid FROM "+table+" WHERE expires <= ? LIMIT ?)",
			now/1000, sweepPart)
	}

	_, _ = t.exec(`DELETE FROM top_ups WHERE (ns, entity, resource, id) IN
		(SELECT ns, entity, resource, id FROM top_ups WHERE expires <= ? LIMIT ?)`, now-rules.SweepMargin, sweepPart)
	_, _ = t.exec("DELETE FROM deleted_buckets WHERE at <= ?", (now-DefaultRetention.Milliseconds())/1000)
}

// buckets sweeps the rows that follow those of the last sweep.
func (s *sweeper) buckets(t *tx, now int64) error {
	type owned struct {
		*record
		ns int64
	}
	var expired []owned
	var end, rows int64

	// The part is counted in rows, expired or not, so that each sweep costs the
	// same.
	if err := t.row("SELECT coalesce(max(id), 0), count(*) FROM (SELECT id FROM buckets_v7 WHERE id > ? "+
		"ORDER BY id LIMIT ?)",
		s.last, sweepPart).scan(&end, &rows); err != nil {
		return err
	}

	err := t.query(func(scan func(...any) error) error {
		var o owned
		var err error
		if o.record, err = t.record(scan, &o.ns); err == nil && o.Gone(now) {
			expired = append(expired, o)
		}

		// A damaged row is skipped.
		return nil
	}, "SELECT b.ns, "+t.columns()+" FROM buckets_v7 b WHERE b.id > ? AND b.id <= ? AND b.expires > 0 AND "+
		"b.expires <= ?", s.last, end, now)
	if err != nil {
		return err
	}

	s.last = end
	if rows < sweepPart {
		s.last = 0 // start over
	}

	for _, o := range expired {
		if err := t.expireIfReadable(o.ns, o.record); err != nil {
			return err
		}
	}
	return nil
}

// expireIfReadable expires a bucket in a savepoint. It keeps a bucket whose usage
// is damaged, so that the sweep can go on.
func (t *tx) expireIfReadable(ns int64, r *record) error {
	if err := t.script("SAVEPOINT expire"); err != nil {
		return err
	}

	if err := t.expire(ns, r); err != nil {
		if !isCorrupt(err) {
			return err
		}

		// The error is about this row and not about the database, so the
		// transaction goes on.
		t.failed = nil
		if err := t.script("ROLLBACK TO expire"); err != nil {
			return err
		}
	}
	return t.script("RELEASE expire")
}
