package dynamo

import (
	"cmp"
	"context"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
)

// SchemaVersion is the form of the data that this package reads and writes.
const SchemaVersion = schemaVersion

// TableName is the name that Connect uses: the one given, else that of the
// environment variable ZAEL_STACK, else "zae-limiter".
func TableName(given string) string { return cmp.Or(given, os.Getenv(envName), defaultName) }

// NamespaceName is the namespace that Connect uses: the one given, else that of
// the environment variable ZAEL_NAMESPACE, else "default".
func NamespaceName(given string) string {
	return cmp.Or(given, os.Getenv(envNamespace), defaultNamespace)
}

// RecordDeployment notes in the version record that by has deployed what serves
// the table, such as "cli:1.2.3". A table without a record gets one; in others
// the schema and the oldest client stay as they are, since only a migration may
// change the first and nothing the second. What the record says about the
// function is removed: Python's clients compare it with their own version, and
// would replace the function's code.
//
// A table from before there were namespaces gets no record here, because one
// says that it has been migrated: see [Migrate].
//
// *limiter.VersionError for a table of a newer version.
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
		return s.noteDeployment(ctx, record, now, by)
	case legacy != nil:
		return nil
	}
	it := s.newVersionRecord()
	it[attrUpdatedAt], it[attrUpdatedBy] = stamp(now), textOrNull(by)
	return s.explain(s.putNew(ctx, it))
}

// noteDeployment is refused if the record was replaced since it was read.
func (s *store) noteDeployment(ctx context.Context, record item, now time.Time, by string) error {
	in := &dynamodb.UpdateItemInput{TableName: &s.table, Key: versionKey().at()}
	in.UpdateExpression = aws.String("SET #lambda = :lambda, #at = :at, #by = :by")
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = new(condition).exists(attrPK).same(record, attrSchema).parts()
	if in.ExpressionAttributeValues == nil {
		in.ExpressionAttributeValues = item{}
	}
	maps.Copy(in.ExpressionAttributeNames, map[string]string{"#lambda": attrLambda, "#at": attrUpdatedAt, "#by": attrUpdatedBy})
	maps.Copy(in.ExpressionAttributeValues, item{":lambda": nothing(), ":at": stamp(now), ":by": textOrNull(by)})
	_, err := s.api(ctx).UpdateItem(ctx, in)
	return s.explain(err)
}

// SetAuditRetention is for how many days audit events of this namespace are
// kept, from now on; events that are stored stay as long as they were to. It
// leaves limits and mode alone.
//
// *limiter.InvalidError if days is not positive; limiter.ErrNotFound if the
// namespace is gone.
func (r *Repository) SetAuditRetention(ctx context.Context, now time.Time, days int) error {
	if days <= 0 {
		return &limiter.InvalidError{Field: "audit retention", Value: strconv.Itoa(days), Reason: "must be at least 1 day"}
	}
	if err := r.requireActiveNow(ctx, now); err != nil {
		return err
	}
	defer r.cache.evict(r.configFact(limiter.Scope{}))
	return r.change(ctx, r.indexedUpdate(configKey(r.ns, "", ""), ", #days = :days, #v = if_not_exists(#v, :v)",
		map[string]string{"#days": attrRetention, "#v": attrConfigVersion}, item{":days": number(int64(days)), ":v": number(configVersion)}))
}
