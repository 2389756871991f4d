package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// writer is the one connection that writes. Calls queue, and those that wait
// while another commits are committed together.
type writer struct {
	file    *file
	db      *sql.DB
	conn    *sql.Conn
	prepped map[string]*sql.Stmt
	queue   chan *job
	waiting []*job        // taken from the queue, in order
	closing chan struct{} // closed by close: no more jobs
	ended   chan struct{} // closed when the last batch is done
	once    sync.Once
	sweep   sweeper
	log     walLog
}

const maxShared = 256 // jobs of one commit

func newWriter(ctx context.Context, f *file) (*writer, error) {
	mode := "mode=rwc"
	if !f.opts.makes() {
		mode = "mode=rw"
	}
	db, err := sql.Open("sqlite", f.dsn(mode))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	w := &writer{
		file: f, db: db, prepped: map[string]*sql.Stmt{}, sweep: sweeper{machine: &f.machine},
		queue: make(chan *job, maxShared), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if w.conn, err = db.Conn(ctx); err == nil {
		err = w.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(f.explain(err), w.release())
	}
	go w.loop() //nolint:contextcheck // it outlives the call that opens the file
	return w, nil
}

// prepare makes the connection and the file ready.
func (w *writer) prepare(ctx context.Context) error {
	began := time.Now()
	if err := w.file.patiently(ctx, began, w.tx(ctx).ours); err != nil { // before anything is changed
		return err
	}
	var mode string
	wal := func() error { return w.tx(ctx).row("PRAGMA journal_mode = WAL").scan(&mode) }
	if err := w.file.patiently(ctx, began, wal); err != nil {
		return err
	}
	w.log = newWALLog(w.file.path)
	if err := w.tx(ctx).script("PRAGMA synchronous = NORMAL; " + w.log.pragma()); err != nil {
		return err
	}
	begin := func() error { return w.tx(ctx).script(beginWriting) }
	if err := w.file.patiently(ctx, began, begin); err != nil {
		return err
	}
	t := w.tx(ctx)
	err := migrate(t, w.file.path)
	if err == nil {
		_, err = t.exec("DELETE FROM namespaces WHERE ?", false) // fails if the file may only be read
	}
	if err != nil {
		return errors.Join(err, w.tx(context.WithoutCancel(ctx)).script("ROLLBACK"))
	}
	if err := t.script("COMMIT"); err != nil {
		return err
	}
	w.copyLog(ctx)
	return nil
}

const beginWriting = "BEGIN IMMEDIATE"

// tx is the transaction the connection is in.
func (w *writer) tx(ctx context.Context) *tx { return &tx{ctx: ctx, on: w, file: w.file, writes: true} }

// do queues work and waits for its commit. When the context ends first, the call
// is not made, or, if it was under way, its outcome is unknown.
func (w *writer) do(ctx context.Context, now int64, work func(*tx) error) error {
	j := &job{began: time.Now(), now: now, work: work, done: make(chan struct{})}
	select {
	case <-w.closing:
		return limiter.ErrClosed
	default:
	}
	select {
	case w.queue <- j:
	case <-w.closing:
		return limiter.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	var otherwise error
	select {
	case <-j.done:
		return j.err
	case <-w.ended:
		otherwise = limiter.ErrClosed
	case <-ctx.Done():
		if j.leave() {
			return ctx.Err()
		}
		otherwise = fmt.Errorf("sqlite: %s did not answer in time; whether the call was stored is unknown: %w", w.file.path, ctx.Err())
	}
	select {
	case <-j.done: // the answer came at the same moment
		return j.err
	default:
		return otherwise
	}
}

func (w *writer) loop() {
	defer close(w.ended)
	for w.next() {
		w.commit()
	}
}

// next waits for a job. It reports false when the writer is closed and none is
// left.
func (w *writer) next() bool {
	if len(w.waiting) > 0 {
		return true
	}
	select {
	case j := <-w.queue:
		w.waiting = append(w.waiting, j)
		runtime.Gosched() // callers that were just answered come back to share this commit
	case <-w.closing:
	}
	w.gather(maxShared)
	return len(w.waiting) > 0
}

// gather takes jobs from the queue until so many wait, or the queue is empty.
func (w *writer) gather(most int) {
	for len(w.waiting) < most {
		select {
		case j := <-w.queue:
			w.waiting = append(w.waiting, j)
		default:
			return
		}
	}
}

// share takes the jobs of the next transaction.
func (w *writer) share() []*job {
	n := min(len(w.waiting), maxShared)
	if i := slices.IndexFunc(w.waiting[:n], func(j *job) bool { return j.alone }); i >= 0 {
		n = max(i, 1)
	}
	batch := w.waiting[:n:n]
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return batch
}

// commit runs the next batch in one transaction. If the database fails it, each
// of its jobs is run alone: no call pays for another's.
func (w *writer) commit() {
	now := w.waiting[len(w.waiting)-1].began // which is recent enough, and cheaper than to ask the clock
	err := w.file.lost(now)
	w.dismiss(err, func(*job) bool { return err != nil })
	if len(w.waiting) == 0 || !w.lock() {
		return
	}
	w.gather(maxShared)
	batch := w.share()
	err = w.run(batch)
	again := err != nil && len(batch) > 1
	if isFull(err) && !batch[0].alone && w.makeRoom() {
		again = true
	}
	if again {
		for _, j := range batch {
			j.again()
		}
		w.waiting = append(batch, w.waiting...)
		return
	}
	finish(batch, err)
	w.tidy(batch, now)
}

// lock begins a transaction, once no other process writes. Jobs that have waited
// for BusyTimeout since they were made are answered meanwhile. It reports false
// if none is left.
func (w *writer) lock() bool {
	for p := shortestPause; ; {
		err := w.tx(context.Background()).script(beginWriting)
		if err == nil {
			return true
		}
		if !isBusy(err) {
			w.dismiss(err, func(*job) bool { return true })
			return false
		}
		w.gather(math.MaxInt) // none may wait longer for being behind others
		w.dismiss(err, func(j *job) bool { return time.Since(j.began) >= w.file.opts.BusyTimeout })
		if len(w.waiting) == 0 {
			return false
		}
		time.Sleep(p.next())
	}
}

// dismiss answers the waiting jobs that are chosen, and forgets those whose
// callers have left.
func (w *writer) dismiss(err error, chosen func(*job) bool) {
	w.waiting = slices.DeleteFunc(w.waiting, func(j *job) bool {
		if j.state.Load() == left {
			return true
		}
		if !chosen(j) {
			return false
		}
		finish([]*job{j}, err)
		return true
	})
}

// run does the work of a batch and commits. An error is the database's, and
// then nothing is stored; a job's own error is the job's.
func (w *writer) run(batch []*job) error {
	t := w.tx(context.Background())
	for _, j := range batch {
		if !j.claim() {
			continue
		}
		j.err = j.work(t)
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
	if t.failed != nil {
		_ = w.tx(context.Background()).script("ROLLBACK") // fails if the database did it already
		return t.failed
	}
	for _, f := range t.stored {
		f()
	}
	return nil
}

// tidy sweeps after a batch, in a transaction of its own, and keeps the log
// small: no call pays for it with its answer. If others write just now it is left
// for the next time.
func (w *writer) tidy(batch []*job, now time.Time) {
	if horizon, due := w.sweep.due(batch); due {
		t := w.tx(context.Background())
		if t.script(beginWriting) == nil {
			w.sweep.run(t, horizon)
			_ = w.finishTransaction(t)
		}
	}
	w.trim(len(batch), now)
}

// close lets queued jobs finish, then closes the connection.
func (w *writer) close() error {
	var err error
	w.once.Do(func() {
		close(w.closing)
		<-w.ended
		err = w.release()
	})
	return err
}

// release gives the connection back to the system.
func (w *writer) release() error {
	for _, s := range w.prepped {
		_ = s.Close()
	}
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// ExecContext runs a statement, prepared the first time.
func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if len(args) == 0 && query != beginWriting && query != "COMMIT" {
		return w.conn.ExecContext(ctx, query) // a script
	}
	s, err := w.statement(ctx, query) //nolint:sqlclosecheck // close closes them
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext runs a query, prepared the first time.
func (w *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := w.statement(ctx, query) //nolint:sqlclosecheck // close closes them
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

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
