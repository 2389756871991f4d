package sqlite

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// applicationID identifies our files by their header: "zael".
const applicationID = 0x7a61656c

// migrations[i] migrates a file from version i to i+1. Do not change a released
// migration: append a new one.
//
// A process of an older version may have the file open. If it must not go on, the
// migration renames the tables that every call uses, after the new version. From
// version 5 on, such a process returns a *limiter.VersionError then.
var migrations = []string{`
CREATE TABLE namespaces (
	key     INTEGER PRIMARY KEY AUTOINCREMENT,
	id      TEXT    NOT NULL UNIQUE,
	name    TEXT    NOT NULL,
	created INTEGER NOT NULL,             -- times of records are Unix seconds
	deleted INTEGER,                      -- NULL while active
	purging INTEGER NOT NULL DEFAULT 0,
	facts   INTEGER NOT NULL DEFAULT 1    -- rises with every change of an entity or a config
) STRICT;
CREATE UNIQUE INDEX namespaces_active ON namespaces (name) WHERE deleted IS NULL;

CREATE TABLE entities (
	ns       INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	parent   TEXT    NOT NULL,            -- '' for none
	cascade  INTEGER NOT NULL,
	metadata TEXT    NOT NULL,            -- JSON object
	created  INTEGER NOT NULL,
	PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX entities_parent ON entities (ns, parent, id) WHERE parent <> '';

CREATE TABLE configs (
	ns             INTEGER NOT NULL,
	entity         TEXT    NOT NULL,      -- '' and '' is the system
	resource       TEXT    NOT NULL,
	limits         TEXT    NOT NULL,      -- JSON list by name
	on_unavailable TEXT    NOT NULL,
	PRIMARY KEY (ns, entity, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX configs_resource ON configs (ns, resource, entity);

CREATE TABLE buckets (
	id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, so that leases know their bucket
	ns       INTEGER NOT NULL,
	entity   TEXT    NOT NULL,
	resource TEXT    NOT NULL,
	facts    INTEGER NOT NULL,            -- of the namespace when limits and parent were looked up
	parent   TEXT    NOT NULL,            -- whom a charge cascades to, '' for none
	limits   TEXT    NOT NULL,            -- JSON list by name
	level    INTEGER NOT NULL,            -- of the limits, in order of precedence
	tokens   TEXT    NOT NULL,            -- JSON list of thousandths, in the order of limits
	at       INTEGER NOT NULL,            -- Unix milliseconds, like the next three
	idle     INTEGER NOT NULL,
	expires  INTEGER NOT NULL,            -- 0 for never
	hour     INTEGER NOT NULL,            -- what used and events count
	used     TEXT    NOT NULL,            -- JSON list of whole tokens not yet in usage
	events   INTEGER NOT NULL,
	UNIQUE (ns, entity, resource)
) STRICT;
CREATE INDEX buckets_resource ON buckets (ns, resource, entity);

CREATE TABLE deleted_buckets (                -- up to which id an entity's buckets were deleted, not expired
	ns     INTEGER NOT NULL,
	entity TEXT    NOT NULL,
	last   INTEGER NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (ns, entity)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
	ns       INTEGER NOT NULL,
	entity   TEXT    NOT NULL,
	resource TEXT    NOT NULL,
	window   TEXT    NOT NULL,
	start    INTEGER NOT NULL,            -- Unix seconds
	counters TEXT    NOT NULL,            -- JSON object
	events   INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	UNIQUE (ns, entity, resource, window, start)
) STRICT;
CREATE INDEX usage_resource ON usage (ns, resource, start);
CREATE INDEX usage_expires ON usage (expires);

CREATE TABLE audit (
	ns        INTEGER NOT NULL,
	entity    TEXT    NOT NULL,
	id        TEXT    NOT NULL,
	action    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	resource  TEXT    NOT NULL,
	at        INTEGER NOT NULL,
	details   TEXT    NOT NULL,           -- JSON object
	expires   INTEGER NOT NULL,
	UNIQUE (ns, entity, id)
) STRICT;
CREATE INDEX audit_expires ON audit (expires);
`, `
CREATE TABLE managed (                        -- what a manifest rules, a row for each namespace that has one
	ns      INTEGER PRIMARY KEY,
	hash    TEXT    NOT NULL,
	applied INTEGER NOT NULL,
	scopes  TEXT    NOT NULL              -- JSON list of [entity, resource]
) STRICT;
`, `
ALTER TABLE managed ADD COLUMN owner TEXT NOT NULL DEFAULT ''; -- the owning custom resource, '' for none
`, `
-- Milliseconds that at was moved back, after a clock far ahead.
ALTER TABLE buckets ADD COLUMN pulled INTEGER NOT NULL DEFAULT 0;
`, `
-- JSON list of the starts of the windows of quotas, in the order of limits, then of
-- their excess if there is any; NULL without quotas.
ALTER TABLE buckets ADD COLUMN starts TEXT;
-- JSON list of how often each limit was spared, like used; NULL for never.
ALTER TABLE buckets ADD COLUMN spared TEXT;
ALTER TABLE usage ADD COLUMN would_refuse TEXT;   -- JSON object like counters; NULL for none
ALTER TABLE namespaces ADD COLUMN switched INTEGER NOT NULL DEFAULT 0; -- facts after the last change of switches

CREATE TABLE switches (                       -- levels that are off
	ns       INTEGER NOT NULL,
	entity   TEXT    NOT NULL,            -- '' and '' is everything
	resource TEXT    NOT NULL,
	reason   TEXT    NOT NULL,
	since    INTEGER NOT NULL,            -- Unix seconds
	PRIMARY KEY (ns, entity, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE top_ups (                        -- IDs of top-ups that were carried out
	ns       INTEGER NOT NULL,
	entity   TEXT    NOT NULL,
	resource TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	expires  INTEGER NOT NULL,            -- Unix milliseconds
	PRIMARY KEY (ns, entity, resource, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX top_ups_expires ON top_ups (expires);

-- A process of an older version that has the file open must not go on. It finds
-- no namespace, and no bucket that it can read or write.
ALTER TABLE namespaces RENAME TO namespaces_v5;
ALTER TABLE buckets RENAME TO buckets_v5;
CREATE VIEW namespaces AS SELECT * FROM namespaces_v5 WHERE false;
CREATE VIEW buckets AS SELECT id, ns, entity, resource, facts, parent, '[]' AS limits, level,
	'the file was upgraded; end this program and start the new version' AS tokens,
	at, idle, expires, hour, used, events, pulled FROM buckets_v5;
`, `
-- A process of version 5 that has the file open may go on: it leaves the columns.

-- JSON list of thousandths: for each limit the largest capacity of its window, 0 for
-- the present one, then for each the use that is hidden; NULL if all are 0.
ALTER TABLE buckets_v5 ADD COLUMN peaks TEXT;
-- JSON list of limits that have left and are remembered; NULL for none.
ALTER TABLE buckets_v5 ADD COLUMN left_limits TEXT;
-- JSON list of five numbers for each: thousandths, their time, start, peak and hidden
-- use of a window.
ALTER TABLE buckets_v5 ADD COLUMN left_levels TEXT;
-- The bucket does not expire before; 0 for none.
ALTER TABLE buckets_v5 ADD COLUMN keep INTEGER NOT NULL DEFAULT 0;
`, `
-- Rises with each change of parent and cascade; 0 for an entity whose charges reach its
-- parent and go no further.
ALTER TABLE entities ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- An older process that has the file open must not go on: it charges two entities
-- where more have to pay. It finds no tables of these names.
ALTER TABLE namespaces_v5 RENAME TO namespaces_v7;
ALTER TABLE buckets_v5 RENAME TO buckets_v7;
`}

// The first schema versions with the column pulled, with quotas, shadow limits and
// switches, with the peaks of quotas and limits that have left, and with the generations
// of entities. An older file that is opened read-only lacks them.
const pulledSince, quotasSince, peaksSince, treesSince = 4, 5, 6, 7

// olderNames translates a query for a file of a version in which the tables had other
// names.
func olderNames(version int, query string) string {
	switch {
	case version >= treesSince:
		return query
	case version >= quotasSince:
		return strings.NewReplacer("namespaces_v7", "namespaces_v5", "buckets_v7", "buckets_v5").Replace(query)
	}
	return strings.NewReplacer("namespaces_v7", "namespaces", "buckets_v7", "buckets").Replace(query)
}

// version reads the application ID, the schema version and the number of tables.
func (t *tx) version() (application, version, tables int, err error) {
	err = t.row(`SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`).scan(&application, &version, &tables)
	return application, version, tables, err
}

// checkUsable returns an error if the file belongs to another program, has a newer
// version, or is empty and must not become a store.
func (t *tx) checkUsable() error {
	application, version, tables, err := t.version()
	if err != nil {
		return err
	}

	if err := t.file.checkNotEmpty(application, tables); err != nil {
		return err
	}
	return checkVersion(t.file.path, application, version, tables)
}

// migrate brings the tables to the newest version. A new store also gets the
// namespace of the options, so that no other process finds one without it.
func migrate(tx *tx) error {
	application, version, tables, err := tx.version()
	if err != nil {
		return err
	}
	if err := checkVersion(tx.file.path, application, version, tables); err != nil {
		return err
	}
	if version == len(migrations) {
		return nil
	}

	for _, m := range migrations[version:] {
		if err := tx.script(m); err != nil {
			return err
		}
	}
	if version == 0 && tx.file.opts.mayCreate() {
		// No caller has passed a time yet.
		if _, err := tx.register(time.Now(), tx.file.opts.Namespace); err != nil {
			return err
		}
	}

	return tx.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID,
		len(migrations)))
}

// checkVersion returns an error for a file of another program or of a newer
// version.
func checkVersion(path string, application, version, tables int) error {
	refuse := func(reason string) error {
		return &limiter.VersionError{
			Store: path, Schema: strconv.Itoa(version), Client: strconv.Itoa(len(migrations)), Reason: reason,
		}
	}

	switch {
	// A new file has no application ID, no version and no tables.
	case application != applicationID && (application != 0 || version != 0 || tables != 0):
		return refuse("the file is a database of another program; choose another path")
	case version > len(migrations):
		return refuse("the file was written by a newer version of this program; upgrade the program")
	}
	return nil
}
