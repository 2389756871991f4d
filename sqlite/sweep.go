package sqlite

import (
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// sweeper removes what expired, a little now and then.
type sweeper struct {
	machine *rules.Machine
	next    int64 // when, in the callers' milliseconds
	last    int64 // id of the bucket looked at last
}

const (
	sweepEvery = 1000 // milliseconds
	sweepPart  = 1000 // rows
)

// due tells whether it is time, and up to when to sweep.
func (s *sweeper) due(batch []*job) (horizon int64, due bool) {
	now := batch[0].now
	for _, j := range batch {
		now = max(now, j.now)
	}
	if now <= 0 || now < s.next && now > s.next-rules.SweepJump {
		return 0, false
	}
	s.next = now + sweepEvery
	return s.machine.Horizon(now), true
}

// run sweeps. What it cannot read it leaves; a failure of the database is the
// transaction's.
func (s *sweeper) run(t *tx, now int64) {
	_ = s.buckets(t, now-rules.SweepMargin)
	for _, table := range []string{"usage", "audit"} {
		_, _ = t.exec("DELETE FROM "+table+" WHERE rowid IN (SELECT rowid FROM "+table+" WHERE expires <= ? LIMIT ?)", now/1000, sweepPart)
	}
	_, _ = t.exec("DELETE FROM deleted_buckets WHERE at <= ?", (now-DefaultRetention.Milliseconds())/1000)
}

// buckets looks at the next rows after the ones it looked at before.
func (s *sweeper) buckets(t *tx, now int64) error {
	type owned struct {
		*record
		ns int64
	}
	var expired []owned
	var end, rows int64
	if err := t.row("SELECT coalesce(max(id), 0), count(*) FROM (SELECT id FROM buckets WHERE id > ? ORDER BY id LIMIT ?)",
		s.last, sweepPart).scan(&end, &rows); err != nil {
		return err
	}
	err := t.query(func(scan func(...any) error) error {
		var o owned
		var err error
		if o.record, err = t.record(scan, &o.ns); err == nil && o.Gone(now) {
			expired = append(expired, o)
		}
		return nil // one damaged row must not keep the others
	}, "SELECT b.ns, "+t.columns()+" FROM buckets b WHERE b.id > ? AND b.id <= ? AND b.expires > 0 AND b.expires <= ?", s.last, end, now)
	if err != nil {
		return err
	}
	s.last = end
	if rows < sweepPart {
		s.last = 0 // begin again
	}
	for _, o := range expired {
		if err := t.expireApart(o.ns, o.record); err != nil {
			return err
		}
	}
	return nil
}

// expireApart is expire that leaves a bucket whose usage is damaged, and the
// others to go.
func (t *tx) expireApart(ns int64, r *record) error {
	if err := t.script("SAVEPOINT apart"); err != nil {
		return err
	}
	if err := t.expire(ns, r); err != nil {
		if !isCorrupt(err) {
			return err
		}
		t.failed = nil
		if err := t.script("ROLLBACK TO apart"); err != nil {
			return err
		}
	}
	return t.script("RELEASE apart")
}
