package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Version holds the stored version record of a table. Fields that the record
// lacks are empty.
type Version struct {
	Schema    string    // the schema version of the data
	ClientMin string    // the oldest client that may use the table
	Lambda    string    // the release of the function that counts usage
	UpdatedBy string    // the last writer, such as "client:0.10.0"
	UpdatedAt time.Time // in whole seconds
}

// Version returns the version record of the table, which all namespaces share.
// It returns limiter.ErrNotFound if there is none.
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

// RecordDeployment stores in the version record that by, such as "cli:1.2.3",
// deployed the stack of the table. It creates the record if there is none. In an
// existing record it keeps the schema version and the oldest client. It clears
// the version of the function, because Python clients compare that with their
// own and would replace the function's code.
//
// A table from before namespaces gets no record, because a record would mark it
// as migrated: see [Migrate].
//
// RecordDeployment returns *limiter.VersionError for a table of a newer version.
func (r *Repository) RecordDeployment(ctx context.Context, now time.Time, by string) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	for try := 0; ; try++ {
		err := r.recordDeployment(ctx, now, by)
		if err == nil || resultOf(err) != refused {
			return err
		}
		if err := r.next(ctx, try, err); err != nil {
			return err
		}
	}
}

func (s *store) recordDeployment(ctx context.Context, now time.Time, by string) error {
	found, err := s.getAll(ctx, []key{versionKey(), legacyVersionKey()})
	if err != nil {
		return err
	}

	record, legacy := found[versionKey()], found[legacyVersionKey()]
	if err := cmp.Or(s.checkVersion(record), s.checkVersion(legacy)); err != nil {
		return err
	}

	switch {
	case record != nil:
		return s.updateDeployment(ctx, record, now, by)
	case legacy != nil:
		return nil
	}

	it := s.newVersionRecord()
	it[attrUpdatedAt], it[attrUpdatedBy] = stamp(now), textOrNull(by)
	return s.explain(s.putNew(ctx, it))
}

// updateDeployment updates an existing version record. The write is refused if
// the schema version has changed since the record was read.
func (s *store) updateDeployment(ctx context.Context, record item, now time.Time, by string) error {
	in := &dynamodb.UpdateItemInput{TableName: &s.table, Key: versionKey().at()}
	in.UpdateExpression = aws.String("SET #lambda = :lambda, #at = :at, #by = :by")
	unchanged := new(condition).exists(attrPK).same(record, attrSchema)
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = unchanged.parts()

	// A condition without values has no map.
	if in.ExpressionAttributeValues == nil {
		in.ExpressionAttributeValues = item{}
	}

	maps.Copy(in.ExpressionAttributeNames, map[string]string{
		"#lambda": attrLambda, "#at": attrUpdatedAt, "#by": attrUpdatedBy,
	})
	maps.Copy(in.ExpressionAttributeValues, item{":lambda": nothing(), ":at": stamp(now), ":by": textOrNull(by)})

	_, err := s.api(ctx).UpdateItem(ctx, in)
	return s.explain(err)
}

// Defaults for fields that a version record lacks.
const missingSchema, missingClientMin = "1.0.0", "0.0.0"

// versionRecord holds the fields of a version record that decide whether this
// package can use the table.
type versionRecord struct{ schema, clientMin string }

func decodeVersion(it item) versionRecord {
	return versionRecord{cmp.Or(it.text(attrSchema), missingSchema), cmp.Or(it.text(attrClientMin), missingClientMin)}
}

// checkVersion returns a *limiter.VersionError if this package cannot use a
// table with the given version record. A nil record is valid.
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
		return refuse("this is no version; repair " + attrSchema + " of item " + record.key().String())
	}

	if schema.major != client.major || schema.compareRelease(tooNew) >= 0 {
		read := s.remedy(remedy.ReadSettings)
		return remedy.With(refuse("the table belongs to a newer version, such as Python's zae-limiter 0.10.1, and "+
			"this program shares a table with exactly "+clientVersion+"; "+read.Error()+" reads its limits"), read)
	}

	if least, ok := parseVersion(v.clientMin); ok && client.compare(least) < 0 {
		return refuse(
			"the table requires clients of version " + v.clientMin + " or newer, and this program counts as " +
				clientVersion + "; upgrade the program",
		)
	}
	return nil
}

// newVersionRecord returns the version record of a new table. lambda_version is
// NULL, because Python clients replace the function if they find a lower version
// than their own.
func (s *store) newVersionRecord() item {
	it := newItem(reservedNamespace, versionKey())
	it[attrSchema], it[attrClientMin], it[attrLambda] = text(schemaVersion), text(missingClientMin), nothing()
	it[attrUpdatedAt], it[attrUpdatedBy] = stamp(s.clock()), text(updatedBy)
	return it
}

const updatedBy = "client:" + clientVersion

// tooNew is the first schema version that this package rejects. It is a minor
// version, because before 1.0.0 a minor version may change the schema.
var tooNew = version{major: 0, minor: 9, patch: 0}

// version is a semantic version.
type version struct {
	major, minor, patch int
	prerelease          string // "" for a release
}

// parseVersion parses 1.2.3, v1.2.3, 1.2.3-rc1, and Python's 1.2.3.dev4+anything.
func parseVersion(s string) (version, bool) {
	s = strings.TrimPrefix(s, "v")
	if release, rest, found := strings.Cut(s, ".dev"); found && rest != "" && isDigit(rest[0]) {
		s = release + "-dev"
	}

	release, prerelease, dashed := strings.Cut(s, "-")
	parts := strings.Split(release, ".")
	if len(parts) != 3 || dashed && !isWord(prerelease) {
		return version{}, false
	}

	var n [3]int
	for i, part := range parts {
		var err error
		// Atoi accepts a sign, and a version has none.
		if n[i], err = strconv.Atoi(part); err != nil || !isDigit(part[0]) {
			return version{}, false
		}
	}
	return version{n[0], n[1], n[2], prerelease}, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether s consists of letters, digits, dots and hyphens, and is
// not empty.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// compare orders versions. A prerelease is older than its release.
func (v version) compare(w version) int {
	return cmp.Or(v.compareRelease(w), cmp.Compare(rank(v), rank(w)), cmp.Compare(v.prerelease, w.prerelease))
}

func (v version) compareRelease(w version) int {
	return slices.Compare([]int{v.major, v.minor, v.patch}, []int{w.major, w.minor, w.patch})
}

func rank(v version) int {
	if v.prerelease == "" {
		return 1
	}
	return 0
}
