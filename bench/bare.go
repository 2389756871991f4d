package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver of our store
)

// bare runs the cheapest safe statement that a limiter could use in SQLite:
// one prepared statement that updates and returns one row, in its own
// transaction. It does not judge, refill or record anything. The journal, the
// synchronous mode, the driver, the table, its indexes and the row are the
// same as in our store.
type bare struct {
	db        *sql.DB
	statement *sql.Stmt
	row       bareRow
}

// bareRow holds the values that the statement writes, and the key of its row.
type bareRow struct {
	ns               int64
	entity, resource string
	tokens, used     string
	expires, hour    int64
}

// bareUpdate sets the columns that our store sets for an acquire.
const bareUpdate = `UPDATE buckets_v7 SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = events + 1
	WHERE ns = ? AND entity = ? AND resource = ? RETURNING tokens, at, events`

// newBare copies the table of buckets from a file of our store. Workers share
// the connections.
func newBare(ctx context.Context, path, from string, connections int) (_ *bare, err error) {
	db, err := sql.Open("sqlite",
		"file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}

	b := &bare{db: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()

	// ATTACH affects one connection, so there must be no other meanwhile.
	db.SetMaxOpenConns(1)
	if err := copyBuckets(ctx, db, from); err != nil {
		return nil, err
	}

	// A connection that database/sql closes while it is idle would be opened
	// and prepared again.
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if b.statement, err = db.PrepareContext(ctx, bareUpdate); err != nil {
		return nil, err
	}

	w := &b.row
	return b, db.QueryRowContext(ctx, "SELECT ns, entity, resource, tokens, used, expires, hour FROM buckets_v7").
		Scan(&w.ns, &w.entity, &w.resource, &w.tokens, &w.used, &w.expires, &w.hour)
}

// copyBuckets creates the same table and indexes, and copies the rows.
func copyBuckets(ctx context.Context, db *sql.DB, from string) error {
	if _, err := db.ExecContext(ctx, "ATTACH ? AS ours", from); err != nil {
		return err
	}

	schema, err := schemaOf(ctx, db)
	if err != nil {
		return err
	}

	for _, statement := range append(
		schema, "INSERT INTO main.buckets_v7 SELECT * FROM ours.buckets_v7", "DETACH ours",
	) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func schemaOf(ctx context.Context, db *sql.DB) (statements []string, err error) {
	// Descending types list the table before its indexes.
	rows, err := db.QueryContext(ctx,
		"SELECT sql FROM ours.sqlite_schema WHERE tbl_name = 'buckets_v7' AND sql IS NOT NULL ORDER BY type DESC")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()

	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			return nil, err
		}
		statements = append(statements, statement)
	}
	return statements, rows.Err()
}

func (b *bare) take(_, n int) error {
	ctx, w := context.Background(), b.row
	var tokens string
	var at, events int64

	for range n {
		now := time.Now().UnixMilli()
		row := b.statement.QueryRowContext(ctx, w.tokens, now, w.expires, w.hour, w.used, w.ns, w.entity, w.resource)
		if err := row.Scan(&tokens, &at, &events); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) close() error {
	var err error
	if b.statement != nil {
		err = b.statement.Close()
	}
	return errors.Join(err, b.db.Close())
}
