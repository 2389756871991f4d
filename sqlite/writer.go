package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// writer owns the only connection that writes. Calls wait in a queue, and those
// that arrive during a commit share the next one.
type writer struct {
	file    *file
	db      *sql.DB
	conn    *sql.Conn
	prepped map[string]*sql.Stmt
	queue   chan *queuedWrite
	waiting []*queuedWrite // taken from the queue, in order
	closing chan struct{}  // closed by close: the queue accepts no more writes
	ended   chan struct{}  // closed after the last batch
	once    sync.Once
	sweep   sweeper
	log     walLog
}

// maxBatch is the largest number of calls that share a commit.
const maxBatch = 256

const beginWriting = "BEGIN IMMEDIATE"

func newWriter(ctx context.Context, f *file) (*writer, error) {
	mode := "mode=rwc"
	if !f.opts.mayCreate() {
		mode = "mode=rw"
	}

	db, err := sql.Open("sqlite", f.dsn(mode))
	if err != nil {
		return nil, err
	}

	// All writes use one connection, and the statements are prepared on it.
	db.SetMaxOpenConns(1)
	w := &writer{
		file: f, db: db, prepped: map[string]*sql.Stmt{}, sweep: sweeper{machine: &f.machine},
		queue: make(chan *queuedWrite, maxBatch), closing: make(chan struct{}), ended: make(chan struct{}),
	}

	if w.conn, err = db.Conn(ctx); err == nil {
		err = w.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(f.explain(ctx, err), w.release())
	}

	go w.loop() //nolint:contextcheck // the loop outlives the call that opens the file
	return w, nil
}

// prepare checks the file, switches it to WAL mode and migrates its schema.
func (w *writer) prepare(ctx context.Context) error {
	began := time.Now()

	// A file of another program must stay as it is, so this check comes before
	// the switch to WAL mode.
	if err := w.file.retryBusy(ctx, began, w.tx(ctx).checkUsable); err != nil {
		return err
	}

	// The switch needs the file alone, so another process may be in the way for
	// a moment.
	var mode string
	wal := func() error { return w.tx(ctx).row("PRAGMA journal_mode = WAL").scan(&mode) }
	if err := w.file.retryBusy(ctx, began, wal); err != nil {
		return err
	}

	w.log = newWALLog(w.file.path)

	// A commit then survives the death of the process without a sync of its
	// own.
	if err := w.tx(ctx).script("PRAGMA synchronous = NORMAL; " + w.log.pragma()); err != nil {
		return err
	}

	// Of several processes that open the file together, one migrates it.
	begin := func() error { return w.tx(ctx).script(beginWriting) }
	if err := w.file.retryBusy(ctx, began, begin); err != nil {
		return err
	}

	t := w.tx(ctx)
	err := migrate(t)
	if err == nil {
		// This changes nothing, but fails if the file is read-only.
		_, err = t.exec("DELETE FROM namespaces_v7 WHERE ?", false)
	}
	if err != nil {
		// The rollback has to run even if ctx has ended.
		return errors.Join(err, w.tx(context.WithoutCancel(ctx)).script("ROLLBACK"))
	}

	if err := t.script("COMMIT"); err != nil {
		return err
	}

	// The new tables then have their space in the file, even if the disk is full
	// later.
	w.copyLog(ctx)
	return nil
}

// tx returns the current transaction of the connection.
func (w *writer) tx(ctx context.Context) *tx {
	return &tx{ctx: ctx, on: w, file: w.file, schema: len(migrations), writes: true}
}

func (w *writer) loop() {
	defer close(w.ended)
	for w.wait() {
		w.commit()
	}
}

// commit runs the next batch in one transaction. If the transaction fails, each
// write runs again in a transaction of its own, so that one call that fails does not
// make the others fail.
func (w *writer) commit() {
	// This is recent enough, and cheaper than time.Now.
	now := w.waiting[len(w.waiting)-1].began

	// The files may have been removed or replaced, and SQLite would write to
	// them all the same.
	err := w.file.checkPresent(now)

	// Without an error, this only drops the writes whose callers have left.
	w.reject(err, func(*queuedWrite) bool { return err != nil })
	if len(w.waiting) == 0 || !w.lock() {
		return
	}

	// Calls that came during the wait for the lock share the commit.
	w.drain(maxBatch)
	batch := w.nextBatch()
	err = w.run(batch)

	retry := err != nil && len(batch) > 1
	// The disk may be full because of the log. One more attempt is worth it after
	// the log is truncated. A write marked as alone is on its second one already.
	if isFull(err) && !batch[0].alone && w.makeRoom() {
		retry = true
	}

	if retry {
		for _, q := range batch {
			q.requeue()
		}
		w.waiting = append(batch, w.waiting...)
		return
	}

	// A caller that has its answer finds its call in the statistics.
	w.count(batch, err)

	// The next commit reverts what callers left behind, ahead of all other
	// calls.
	w.waiting = append(finish(batch, err), w.waiting...)

	// The callers have their answers by now, so none of them waits for this.
	w.maintain(batch, now)
}

// count adds a finished batch to the statistics.
func (w *writer) count(batch []*queuedWrite, err error) {
	w.file.writes.Add(int64(len(batch)))
	if err == nil {
		w.file.commits.Add(1)
	}
}

// lock begins a transaction as soon as no other process writes. Meanwhile it fails
// writes that have waited for BusyTimeout. It returns false if none is left.
func (w *writer) lock() bool {
	for p := minBackoff; ; {
		err := w.tx(context.Background()).script(beginWriting)
		if err == nil {
			return true
		}

		// Any other error is no lock, so waiting longer would not help.
		if !isBusy(err) {
			w.reject(err, func(*queuedWrite) bool { return true })
			return false
		}

		// BusyTimeout applies to the calls in the queue, too.
		w.drain(math.MaxInt)
		w.reject(err, func(q *queuedWrite) bool { return time.Since(q.began) >= w.file.opts.BusyTimeout })
		if len(w.waiting) == 0 {
			return false
		}

		time.Sleep(p.next())
	}
}

// run does the work of a batch and commits. It returns an error if the database
// failed; nothing is stored then. An error of the work itself goes to its caller.
func (w *writer) run(batch []*queuedWrite) error {
	t := w.tx(context.Background())
	for _, q := range batch {
		// The caller left before its work began.
		if !q.start() {
			continue
		}

		q.err = q.work(t)
		q.ran = true

		// The transaction will be rolled back, so the rest need not run.
		if t.failed != nil {
			break
		}
	}

	return w.finishTransaction(t)
}

// finishTransaction commits, or rolls back if the database failed.
func (w *writer) finishTransaction(t *tx) error {
	if t.failed == nil {
		_ = t.script("COMMIT")
	}

	// A COMMIT that fails sets t.failed as well.
	if t.failed != nil {
		// SQLite may have rolled back already. Then this fails, which does no
		// harm.
		_ = w.tx(context.Background()).script("ROLLBACK")
		return t.failed
	}

	// Caches learn of a change only once it is stored.
	for _, f := range t.committed {
		f()
	}
	return nil
}

// maintain sweeps and trims the log after a batch, so that no call waits for it.
// The sweep has its own transaction. It is skipped while another process writes.
func (w *writer) maintain(batch []*queuedWrite, now time.Time) {
	if horizon, due := w.sweep.due(batch); due {
		t := w.tx(context.Background())
		if t.script(beginWriting) == nil {
			w.sweep.run(t, horizon)
			_ = w.finishTransaction(t)
		}
	}

	w.trimLog(len(batch), now)
}

// close waits for queued writes, then closes the connection.
func (w *writer) close() error {
	var err error
	w.once.Do(func() {
		close(w.closing)
		<-w.ended
		err = w.release()
	})
	return err
}

// release closes the statements and the connection.
func (w *writer) release() error {
	for _, s := range w.prepped {
		_ = s.Close()
	}

	var errs []error
	// A writer that failed to open may have no connection.
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}

	return errors.Join(append(errs, w.db.Close())...)
}

// ExecContext runs a statement. It prepares each statement once.
func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	// A script may hold several statements, which cannot be prepared as one.
	// BEGIN and COMMIT run with every batch, so they are prepared like queries.
	if len(args) == 0 && query != beginWriting && query != "COMMIT" {
		return w.conn.ExecContext(ctx, query)
	}

	s, err := w.statement(ctx, query) //nolint:sqlclosecheck // close closes them
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext runs a query. It prepares each query once.
func (w *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := w.statement(ctx, query) //nolint:sqlclosecheck // close closes them
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// statement returns the prepared statement of a query.
func (w *writer) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := w.prepped[query]; ok {
		return s, nil
	}

	s, err := w.conn.PrepareContext(ctx, query)
	if err == nil {
		w.prepped[query] = s
	}

	return s, err
}

// retryBusy repeats try while another process holds the lock, until BusyTimeout
// has passed since began. SQLite's own busy timeout is not used: it ignores the
// context, and starts again with every statement.
func (f *file) retryBusy(ctx context.Context, began time.Time, try func() error) error {
	for p := minBackoff; ; {
		err := try()
		if !isBusy(err) || time.Since(began) >= f.opts.BusyTimeout {
			return err
		}

		select {
		case <-time.After(p.next()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// backoff is the pause before the next attempt to get a lock. It grows with each
// attempt.
type backoff time.Duration

const (
	minBackoff = backoff(50 * time.Microsecond)
	maxBackoff = backoff(10 * time.Millisecond)
)

// next returns a random duration around the pause, and doubles the pause.
func (p *backoff) next() time.Duration {
	at := max(*p, minBackoff)
	*p = min(2*at, maxBackoff)

	// Processes that wait for the same lock must not try again at the same
	// moment.
	return time.Duration(at/2 + rand.N(at))
}
