package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
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
	closing chan struct{} // closed by close: no more jobs
	ended   chan struct{} // closed when the last batch is done
	once    sync.Once
	sweep   sweeper
}

// job is one call. It is either claimed by the writer, which then answers, or
// abandoned by its caller, whose context ended first.
type job struct {
	now   int64
	work  func(*tx) error
	taken atomic.Bool // by whichever comes first
	err   error
	done  chan struct{}
}

const mostShared = 256 // jobs of one commit

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
		file: f, db: db, prepped: map[string]*sql.Stmt{},
		queue: make(chan *job, mostShared), closing: make(chan struct{}), ended: make(chan struct{}),
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
	t := w.tx(ctx)
	if err := t.ours(); err != nil { // before anything is changed
		return err
	}
	var mode string
	wal := func() error { return t.row("PRAGMA journal_mode = WAL").scan(&mode) }
	if err := w.patiently(ctx, nil, wal); err != nil { // SQLite does not wait when several processes make a file
		return err
	}
	// From here on the writer waits by itself, so that it can also stop waiting.
	if err := t.script("PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	return w.transaction(ctx, func(t *tx) error {
		if err := migrate(t, w.file.path); err != nil {
			return err
		}
		_, err := t.exec("DELETE FROM namespaces WHERE ?", false) // fails if the file may only be read
		return err
	})
}

// tx is the transaction the connection is in.
func (w *writer) tx(ctx context.Context) *tx { return &tx{ctx: ctx, on: w, file: w.file} }

// transaction runs work alone.
func (w *writer) transaction(ctx context.Context, work func(*tx) error) error {
	if err := w.begin(ctx, nil); err != nil {
		return err
	}
	if err := work(w.tx(ctx)); err != nil {
		return errors.Join(err, w.tx(context.WithoutCancel(ctx)).script("ROLLBACK"))
	}
	return w.tx(ctx).script("COMMIT")
}

// do queues work and waits for its commit. A context that ends before the work
// began ends the waiting; after that the answer is near.
func (w *writer) do(ctx context.Context, now int64, work func(*tx) error) error {
	j := &job{now: now, work: work, done: make(chan struct{})}
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
	select {
	case <-j.done:
		return j.err
	case <-w.ended:
		if j.taken.CompareAndSwap(false, true) {
			return limiter.ErrClosed
		}
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
	}
	<-j.done
	return j.err
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		select {
		case j := <-w.queue:
			runtime.Gosched() // callers that were just answered come back to share this commit
			w.commit(w.waiting([]*job{j}))
		case <-w.closing:
			if batch := w.waiting(nil); len(batch) > 0 {
				w.commit(batch)
				continue
			}
			return
		}
	}
}

// waiting adds the jobs that are in the queue by now.
func (w *writer) waiting(batch []*job) []*job {
	for len(batch) < mostShared {
		select {
		case j := <-w.queue:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch in one transaction. If the database fails one job, the
// others are run by themselves: no call pays for another's.
func (w *writer) commit(batch []*job) {
	err := w.begin(context.Background(), batch)
	if err != nil {
		finish(claim(batch), err)
		return
	}
	batch = claim(w.waiting(batch))
	err = w.run(batch)
	if err == nil || len(batch) == 1 {
		finish(batch, err)
		w.tidy(batch)
		return
	}
	for _, j := range batch {
		if err := w.begin(context.Background(), nil); err != nil {
			finish([]*job{j}, err)
			continue
		}
		finish([]*job{j}, w.run([]*job{j}))
	}
}

// run does the work of a batch and commits. An error is the database's, and
// then nothing is stored; a job's own error is the job's.
func (w *writer) run(batch []*job) error {
	t := w.tx(context.Background())
	for _, j := range batch {
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
	}
	return t.failed
}

// tidy sweeps after a batch, in a transaction of its own: no call pays for it
// with its answer. If others write just now it is left for the next time.
func (w *writer) tidy(batch []*job) {
	if len(batch) == 0 {
		return
	}
	horizon, due := w.sweep.due(batch)
	if !due {
		return
	}
	t := w.tx(context.Background())
	if t.script("BEGIN IMMEDIATE") != nil {
		return
	}
	w.sweep.run(t, horizon)
	_ = w.finishTransaction(t)
}

// claim is the jobs whose callers still wait.
func claim(batch []*job) []*job {
	kept := batch[:0]
	for _, j := range batch {
		if j.taken.CompareAndSwap(false, true) {
			kept = append(kept, j)
		}
	}
	return kept
}

// finish answers jobs that were claimed; err, if any, goes for all.
func finish(batch []*job, err error) {
	for _, j := range batch {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
}

// begin waits for the write lock of the file until BusyTimeout is over, or no
// job of the batch is waited for any more.
func (w *writer) begin(ctx context.Context, batch []*job) error {
	return w.patiently(ctx, batch, func() error { return w.tx(ctx).script("BEGIN IMMEDIATE") })
}

// patiently repeats what fails because others write.
func (w *writer) patiently(ctx context.Context, batch []*job, try func() error) error {
	var waited time.Duration
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := try()
		if err == nil || !isBusy(err) {
			return err
		}
		if waited >= w.file.opts.BusyTimeout || len(batch) > 0 && abandoned(batch) {
			return err
		}
		nap := pause/2 + rand.N(pause)
		select {
		case <-time.After(nap):
			waited += nap
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func abandoned(batch []*job) bool {
	for _, j := range batch {
		if !j.taken.Load() {
			return false
		}
	}
	return true
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
	if len(args) == 0 && query != "BEGIN IMMEDIATE" && query != "COMMIT" {
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
