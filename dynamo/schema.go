package dynamo

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// This file is the only place that spells keys and attribute names. They match
// zae-limiter 0.10.0 for Python, schema version 0.8.0.

const (
	schemaVersion = "0.8.0"
	clientVersion = "0.10.0" // the Python release that this package equals
)

// Attributes of the table and its indexes.
const (
	attrPK, attrSK         = "PK", "SK"
	attrGSI1PK, attrGSI1SK = "GSI1PK", "GSI1SK" // children of a parent
	attrGSI2PK, attrGSI2SK = "GSI2PK", "GSI2SK" // buckets and usage of a resource
	attrGSI3PK, attrGSI3SK = "GSI3PK", "GSI3SK" // entities with limits for a resource
	attrGSI4PK, attrGSI4SK = "GSI4PK", "GSI4SK" // all items of a namespace

	indexChildren, indexResource, indexConfigs, indexNamespace = "GSI1", "GSI2", "GSI3", "GSI4"
)

// Attributes of items.
const (
	attrEntity        = "entity_id"
	attrResource      = "resource"
	attrTTL           = "ttl"
	attrName          = "name"
	attrParent        = "parent_id"
	attrCascade       = "cascade"
	attrGeneration    = "_gen" // Go only: of an entity's record, see limiter.Entity
	attrMetadata      = "metadata"
	attrCreatedAt     = "created_at"
	attrRefill        = "rf"
	attrConfigVersion = "config_version"
	attrMode          = "on_unavailable"
	attrRetention     = "audit_retention_days"
	attrResources     = "resources"
	attrWindow        = "window"
	attrWindowStart   = "window_start"
	attrEvents        = "total_events"
	attrSequence      = "sequence" // Go only, like attrFinished: how far a shard is read
	attrFinished      = "finished"
	attrShape         = "_lv" // Go only: counts the changes of a bucket's limits
	attrKeep          = "_kp" // Go only: a bucket does not expire before, in milliseconds
	attrLife          = "_id" // Go only: identifies one life of a bucket
	// Go only: the last change that a snapshot counts. It is text, so that
	// readers of counters skip it.
	attrMark = "_sq"
	// Go only: a snapshot has a second item, for shadow limits. It is text as
	// well.
	attrHasShadow     = "_wr"
	attrEventID       = "event_id"
	attrTimestamp     = "timestamp"
	attrAction        = "action"
	attrPrincipal     = "principal"
	attrDetails       = "details"
	attrSchema        = "schema_version"
	attrClientMin     = "client_min_version"
	attrLambda        = "lambda_version"
	attrUpdatedAt     = "updated_at"
	attrUpdatedBy     = "updated_by"
	attrNamespaceID   = "namespace_id"
	attrNamespaceName = "namespace_name"
	attrStatus        = "status"
	attrDeletedAt     = "deleted_at"

	// Attributes of switches, Go only. attrOff is the copy of a switch on a bucket.
	// The others belong to the item of the switches, and begin with the prefix of
	// limits, which policies for applications do not let them write.
	attrOff                      = "off"
	attrOffAll, attrOffResources = "l_off", "l_off_resources"
	fieldReason, fieldSince      = "reason", "since"
	fieldEvent                   = "event" // makes each copy unique

	attrUntil = "until" // Go only: when the ID of a top-up may be used again, in milliseconds

	// Attributes of the list of what a manifest manages.
	attrManagedSystem                         = "managed_system"
	attrManagedResources, attrManagedEntities = "managed_resources", "managed_entities"
	attrLastApplied, attrAppliedHash          = "last_applied", "applied_hash"

	// Attributes that only migrations use. attrMovedTo is Go only.
	attrLimitName, attrLimitBurst, attrLimitCapacity = "limit_name", "burst", "capacity"
	attrLimitRefill, attrLimitSeconds                = "refill_amount", "refill_period_seconds"
	attrMovedTo                                      = "moved_to"
)

// Fields of a limit in a bucket (b_NAME_FIELD) and in a config (l_NAME_FIELD).
const (
	bucketPrefix, configPrefix = "b_", "l_"

	fieldTokens, fieldCapacity, fieldAmount, fieldPeriod, fieldTotal = "_tk", "_cp", "_ra", "_rp", "_tc"

	// Go only: the window of a quota and its start, the mark of a shadow limit, how
	// often it would have refused, the capacities of a quota's window, and the mark of
	// a limit that has left.
	fieldWindow, fieldStart, fieldShadow, fieldSpared, fieldPeak, fieldLeft = "_wn", "_wi", "_sh", "_wr", "_wx", "_lf"
)

// Attributes and fields of configs that only releases after Python's 0.10.0 write.
// ReadSettings reads them.
const (
	attrNewerSwitch, attrNewerZone                      = "disabled", "sched_tz"
	fieldNewerReset, fieldNewerSchedule, fieldNewerSoft = "_rsched", "_sched", "_soft"
	// Newer releases have limits that reset some time after their first use.
	rollingPrefix, fieldRollingAfter = "w_", "_rsa"
)

// States of a namespace.
const statusActive, statusDeleted, statusPurging = "active", "deleted", "purging"

const (
	reservedNamespace = "_"         // the namespace of the table's own items
	defaultResource   = "_default_" // stands for all resources

	metaSK              = "#META"
	configSK            = "#CONFIG"
	resourcesSK         = "#RESOURCES"
	entityConfigsSK     = "#ENTITY_CONFIG_RESOURCES"
	versionSK           = "#VERSION"
	managedSK           = "#PROVISIONER"
	switchSK            = "#SWITCH" // Go only
	bucketSKPrefix      = "#BUCKET#"
	configSKPrefix      = "#CONFIG#"
	usageSKPrefix       = "#USAGE#"
	shadowSKPrefix      = "#SHADOW#" // Go only: how often shadow limits would have refused
	auditSKPrefix       = "#AUDIT#"
	namespaceSKPrefix   = "#NAMESPACE#"
	namespaceIDSKPrefix = "#NSID#"
	streamSKPrefix      = "#STREAM#" // Go only: how far the stream is read
	topUpSKPrefix       = "#TOPUP#"  // Go only
	legacyLimitSKPrefix = "#LIMIT#"

	bucketGSIPrefix = "BUCKET#"
	usageGSIPrefix  = "USAGE#"
	childGSIPrefix  = "CHILD#"
)

// key is the primary key of an item.
type key struct{ pk, sk string }

// possible reports whether an item can have the key: DynamoDB rejects longer ones.
func (k key) possible() bool {
	const maxPK, maxSK = 2048, 1024
	return len(k.pk) <= maxPK && len(k.sk) <= maxSK
}

func (k key) String() string { return k.pk + " " + k.sk }

func entityPK(ns, entity string) string     { return ns + "/ENTITY#" + entity }
func resourcePK(ns, resource string) string { return ns + "/RESOURCE#" + resource }
func namespacePrefix(ns string) string      { return ns + "/" }
func systemPK(ns string) string             { return ns + "/SYSTEM#" }
func auditPK(ns, entity string) string      { return ns + "/AUDIT#" + entity }
func parentPK(ns, parent string) string     { return ns + "/PARENT#" + parent }
func configsPK(ns, resource string) string  { return ns + "/ENTITY_CONFIG#" + resource }
func switchesPK(ns string) string           { return ns + "/SWITCH#" }
func entityPKPrefix(ns string) string       { return entityPK(ns, "") }
func metaKey(ns, entity string) key         { return key{entityPK(ns, entity), metaSK} }
func bucketKey(ns, entity, resource string) key {
	return key{entityPK(ns, entity), bucketSKPrefix + resource}
}

// switchKey returns the key of the switches of an entity, or of those of the
// namespace if entity is "".
func switchKey(ns, entity string) key {
	if entity == "" {
		return key{systemPK(ns), switchSK}
	}
	return key{entityPK(ns, entity), switchSK}
}

func topUpKey(ns, entity, resource, id string) key {
	return key{entityPK(ns, entity), topUpSKPrefix + resource + "#" + id}
}

// usageKey returns the key of a snapshot. Python's keys lack the window, so that
// an hour, a day and a month with the same start share one item. Readers take the
// window from the attributes.
func usageKey(ns, entity, resource string, window limiter.Window, start string) key {
	sk := usageSKPrefix + resource + "#" + start
	if window != limiter.Hourly {
		sk += "#" + string(window)
	}
	return key{entityPK(ns, entity), sk}
}

// shadowKey returns the key of the item beside a snapshot that counts what shadow
// limits would have refused. To Python, every number in a snapshot is a limit.
func (k key) shadowKey() key {
	return key{k.pk, shadowSKPrefix + strings.TrimPrefix(k.sk, usageSKPrefix)}
}

func auditKey(ns, entity, id string) key { return key{auditPK(ns, entity), auditSKPrefix + id} }
func resourcesKey(ns string) key         { return key{systemPK(ns), resourcesSK} }
func entityConfigsKey(ns string) key     { return key{systemPK(ns), entityConfigsSK} }
func managedKey(ns string) key           { return key{systemPK(ns), managedSK} }
func versionKey() key                    { return key{systemPK(reservedNamespace), versionSK} }
func namespaceKey(name string) key       { return key{systemPK(reservedNamespace), namespaceSKPrefix + name} }

func shardKey(label, shard string) key {
	return key{systemPK(reservedNamespace), streamSKPrefix + label + "#" + shard}
}

func namespaceIDKey(id string) key { return key{systemPK(reservedNamespace), namespaceIDSKPrefix + id} }

// legacyNamespace is the namespace ID of clients that do not look up an ID.
const legacyNamespace = "default"

// legacyVersionKey returns the key of the version record in a table without
// namespaces.
func legacyVersionKey() key { return key{"SYSTEM#", versionSK} }

// isLegacy reports whether a partition key has no namespace.
func isLegacy(pk string) bool {
	i := strings.IndexAny(pk, "/#")
	return i >= 0 && pk[i] == '#'
}

// configKey returns the key of the config of a scope.
func configKey(ns, entity, resource string) key {
	switch {
	case entity != "":
		return key{entityPK(ns, entity), configSKPrefix + storedResource(resource)}
	case resource != "":
		return key{resourcePK(ns, resource), configSK}
	}
	return key{systemPK(ns), configSK}
}

// storedResource returns the stored form of a resource, where "" means all.
func storedResource(resource string) string {
	if resource == "" {
		return defaultResource
	}
	return resource
}

// portResource reverts storedResource.
func portResource(stored string) string {
	if stored == defaultResource {
		return ""
	}
	return stored
}

// Within the partition of an entity, the sort keys from firstBucketSK to lastConfigSK
// belong to buckets, then configs.
const firstBucketSK, lastConfigSK = bucketSKPrefix, "#CONFIG$"

func bucketAttr(limit, field string) string { return bucketPrefix + limit + field }
func configAttr(limit, field string) string { return configPrefix + limit + field }

// bucketField splits the name of a bucket's attribute into limit and field. Both are
// empty for an attribute of the bucket as a whole.
func bucketField(attr string) (limit, field string) {
	end := len(attr) - len(fieldTokens)
	if end <= len(bucketPrefix) || attr[:len(bucketPrefix)] != bucketPrefix {
		return "", ""
	}
	return attr[len(bucketPrefix):end], attr[end:]
}

// limitOf returns the limit whose field attr is, and whether it is one.
func limitOf(attr, prefix, field string) (limit string, ok bool) {
	rest, ok := strings.CutPrefix(attr, prefix)
	if !ok {
		return "", false
	}
	limit, ok = strings.CutSuffix(rest, field)
	return limit, ok && limit != ""
}
