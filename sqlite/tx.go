package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// tx is an open transaction of a reader or of the writer.
type tx struct {
	ctx       context.Context
	on        querier
	file      *file
	schema    int // version of the tables
	writes    bool
	facts     map[*namespace]*facts // as of this transaction of the writer
	failed    error                 // first error of the database; the transaction is rolled back
	committed []func()              // called after the commit
}

// onCommit registers f to be called after the commit of the writer's transaction.
// If the commit fails, f is never called.
func (t *tx) onCommit(f func()) { t.committed = append(t.committed, f) }

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// fail marks the transaction as failed if err is not nil. It returns err.
func (t *tx) fail(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

// exec runs a statement and returns the number of rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	res, err := t.on.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	return res.RowsAffected()
}

// insert runs an INSERT and returns the ID of the row.
func (t *tx) insert(query string, args ...any) (int64, error) {
	res, err := t.on.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	return res.LastInsertId()
}

// script runs statements without arguments.
func (t *tx) script(statements string) error {
	_, err := t.on.ExecContext(t.ctx, statements)
	return t.fail(err)
}

// query calls each for every row. It returns the first error of each, of
// scanning or of the database.
func (t *tx) query(each func(scan func(...any) error) error, query string, args ...any) error {
	// The tables of an older file, which is opened read-only, have their old
	// names.
	query = olderNames(t.schema, query)

	rows, err := t.on.QueryContext(t.ctx, query, args...)
	if err != nil {
		return t.fail(err)
	}
	defer func() { _ = rows.Close() }()

	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return t.fail(rows.Err())
}

var errNoRow = errors.New("no row")

// oneRow is a query with at most one row.
type oneRow struct {
	tx    *tx
	query string
	args  []any
}

func (t *tx) row(query string, args ...any) oneRow { return oneRow{t, query, args} }

// scan reads the row. It returns errNoRow if there is none.
func (r oneRow) scan(into ...any) error {
	found := false
	err := r.tx.query(func(scan func(...any) error) error {
		found = true
		return scan(into...)
	}, r.query, r.args...)
	if err == nil && !found {
		return errNoRow
	}
	return err
}
