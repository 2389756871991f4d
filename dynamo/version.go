package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// tooNew is the first schema that this package does not know. What a later one
// changes cannot be guessed, so it is refused even before a stable release.
var tooNew = version{major: 0, minor: 9, patch: 0}

// version is MAJOR.MINOR.PATCH, and perhaps what comes before that release.
type version struct {
	major, minor, patch int
	before              string // "" for the release itself
}

// parseVersion reads 1.2.3, v1.2.3, 1.2.3-rc1, and Python's 1.2.3.dev4+anything.
func parseVersion(s string) (version, bool) {
	s = strings.TrimPrefix(s, "v")
	if release, rest, found := strings.Cut(s, ".dev"); found && rest != "" && isDigit(rest[0]) {
		s = release + "-dev"
	}
	release, before, dashed := strings.Cut(s, "-")
	parts := strings.Split(release, ".")
	if len(parts) != 3 || dashed && !isWord(before) {
		return version{}, false
	}
	var n [3]int
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(part); err != nil || !isDigit(part[0]) {
			return version{}, false
		}
	}
	return version{n[0], n[1], n[2], before}, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord tells whether s is letters, digits, dots and hyphens, at least one.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// compare orders versions: what comes before a release is older than it.
func (v version) compare(w version) int {
	return cmp.Or(v.compareRelease(w), cmp.Compare(rank(v), rank(w)), cmp.Compare(v.before, w.before))
}

func (v version) compareRelease(w version) int {
	return slices.Compare([]int{v.major, v.minor, v.patch}, []int{w.major, w.minor, w.patch})
}

func rank(v version) int {
	if v.before == "" {
		return 1
	}
	return 0
}

// Version is what the version record of a table says, as it is stored: "" or
// zero where it says nothing.
type Version struct {
	Schema    string    // the form of the data
	ClientMin string    // the oldest client that may use the table
	Lambda    string    // the release of the function that counts usage
	UpdatedBy string    // who wrote the record, such as "client:0.10.0"
	UpdatedAt time.Time // when, in whole seconds
}

// Version is the version record of the table, whatever the namespace.
// limiter.ErrNotFound when there is none.
func (r *Repository) Version(ctx context.Context) (Version, error) {
	if err := r.ready(ctx); err != nil {
		return Version{}, err
	}
	record, err := r.get(ctx, versionKey())
	if err != nil {
		return Version{}, err
	}
	if record == nil {
		return Version{}, fmt.Errorf("version record of table %q: %w", r.table, limiter.ErrNotFound)
	}
	return Version{
		Schema: record.text(attrSchema), ClientMin: record.text(attrClientMin), Lambda: record.text(attrLambda),
		UpdatedBy: record.text(attrUpdatedBy), UpdatedAt: record.time(attrUpdatedAt),
	}, nil
}

// Of records that lack them.
const missingSchema, missingClientMin = "1.0.0", "0.0.0"

// versionRecord is what the table says about itself. lambda_version is of no
// interest here: it is about a function that others deploy.
type versionRecord struct{ schema, clientMin string }

func decodeVersion(it item) versionRecord {
	return versionRecord{cmp.Or(it.text(attrSchema), missingSchema), cmp.Or(it.text(attrClientMin), missingClientMin)}
}

// checkVersion is nil, or a *limiter.VersionError, for the version record of a
// table. A table without one is as good as new.
func (s *store) checkVersion(record item) error {
	if record == nil {
		return nil
	}
	v := decodeVersion(record)
	refuse := func(reason string) error {
		return &limiter.VersionError{Store: "table " + s.table, Schema: v.schema, Client: schemaVersion, Reason: reason}
	}
	client, _ := parseVersion(clientVersion)
	schema, ok := parseVersion(v.schema)
	if stored := record[attrSchema]; !ok || stored != nil && record.text(attrSchema) == "" {
		return refuse("that is no version; repair " + attrSchema + " of item " + record.key().String())
	}
	if least, ok := parseVersion(v.clientMin); ok && client.compare(least) < 0 {
		return refuse("the table asks for clients of version " + v.clientMin + " or newer, and this program counts as " + clientVersion + "; upgrade the program")
	}
	if schema.major != client.major || schema.compareRelease(tooNew) >= 0 {
		return refuse("the table belongs to a newer version; upgrade the program")
	}
	return nil
}

// newVersionRecord is that of a table that has none yet. lambda_version is NULL:
// any number there that is lower than theirs would make Python clients replace
// the function.
func (s *store) newVersionRecord() item {
	it := newItem(reservedNamespace, versionKey())
	it[attrSchema], it[attrClientMin], it[attrLambda] = text(schemaVersion), text(missingClientMin), nothing()
	it[attrUpdatedAt], it[attrUpdatedBy] = stamp(s.clock()), text(updatedBy)
	return it
}

const updatedBy = "client:" + clientVersion
