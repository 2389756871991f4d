package dynamo

import (
	"context"
	"iter"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Before 0.10.0 keys had no namespace. The migration copies each such item to its
// key in the namespace default, unless that is taken. It copies the version
// record last, and then marks the old one, so that a later run knows that all
// items were copied.

func (m *migrator) keysPending() bool {
	if m.legacy == nil {
		return m.current == nil // without a record, there may be items to copy
	}
	return m.legacy.text(attrMovedTo) == "" || m.options.DeleteOriginals
}

func (m *migrator) migrateKeys(ctx context.Context) error {
	ns := m.legacy.text(attrMovedTo)
	// The mark in the old version record says that everything was copied
	// before.
	if ns == "" || m.options.All {
		target, err := m.register(ctx, m.clock(), defaultNamespace)
		if err != nil {
			return err
		}
		ns = target.ID
		if err := m.copyOriginals(ctx, ns); err != nil {
			return err
		}
	}

	if !m.options.DeleteOriginals {
		return nil
	}
	return m.deleteOriginals(ctx, ns)
}

// originals iterates over the items without a namespace, except the version
// record.
func (m *migrator) originals(ctx context.Context) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for it, err := range m.scan(ctx, &dynamodb.ScanInput{}) {
			if err == nil && (!isLegacy(it.text(attrPK)) || it.key() == legacyVersionKey()) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// copyOriginals copies all originals, and then marks the table as copied.
func (m *migrator) copyOriginals(ctx context.Context, ns string) error {
	r := &Repository{store: m.store, ns: ns}
	var limits atomic.Bool
	err := inParallel(ctx, m.originals(ctx), func(ctx context.Context, it item) error {
		if strings.HasPrefix(it.text(attrSK), legacyLimitSKPrefix) {
			limits.Store(true)
		}
		return m.copyOriginal(ctx, r, it)
	})
	if err != nil {
		return err
	}

	// A table from before 0.8.0 has limits of the old form, which were copied
	// as they are.
	if limits.Load() {
		if err := m.convertLimits(ctx, ns); err != nil {
			return err
		}
	}

	if m.legacy == nil {
		return nil
	}

	// The version records come last, so that a run after a crash copies what is
	// left.
	if err := m.putNew(ctx, movedVersion(m.legacy)); err != nil && resultOf(err) != refused {
		return m.explain(err)
	}
	return m.markMoved(ctx, ns)
}

// copyOriginal copies an item unless its new key is taken. It does not copy
// registries, but enters each copied config in the same transaction. So the
// counts stay right if the migration is repeated, or if clients of the new
// release have entered configs before.
func (m *migrator) copyOriginal(ctx context.Context, r *Repository, it item) error {
	if isRegistry(it) {
		return nil
	}

	moved := movedItem(r.ns, it)
	entry := r.registryEntry(moved)
	var err error
	if entry == nil {
		err = m.explain(m.putNew(ctx, moved))
	} else {
		m.registryMu.Lock()
		err = m.change(ctx, m.putIf(moved, absent()), *entry)
		m.registryMu.Unlock()
	}

	// A refusal means that an earlier run, or a client of the new release, has
	// stored the new key.
	switch {
	case err == nil:
		m.report(Progress{Items: 1})
	case resultOf(err) != refused:
		return err
	}
	return nil
}

func isRegistry(it item) bool {
	sk := it.text(attrSK)

	return sk == resourcesSK || sk == entityConfigsSK
}

// registryEntry returns the write that enters a copied config in its registry, or
// nil if the item is not the config of an entity or a resource.
func (r *Repository) registryEntry(moved item) *types.TransactWriteItem {
	k := moved.key()
	var entry types.TransactWriteItem
	if stored, ok := strings.CutPrefix(k.sk, configSKPrefix); ok && strings.HasPrefix(k.pk, entityPKPrefix(r.ns)) {
		entry = r.countLimits(portResource(stored))
	} else if resource, ok := strings.CutPrefix(k.pk, resourcePK(r.ns, "")); ok && k.sk == configSK {
		entry = r.countDefaults(resource, "ADD")
	} else {
		return nil
	}
	return &entry
}

// movedItem returns a copy of an item under its key in a namespace.
func movedItem(ns string, it item) item {
	moved := maps.Clone(it)
	for _, attr := range []string{attrPK, attrGSI1PK, attrGSI2PK, attrGSI3PK} {
		if pk := it.text(attr); isLegacy(pk) {
			moved[attr] = text(namespacePrefix(ns) + pk)
		}
	}

	moved[attrGSI4PK], moved[attrGSI4SK] = text(ns), moved[attrPK]
	k := moved.key()
	entity, ofEntity := strings.CutPrefix(k.pk, entityPKPrefix(ns))
	resource, config := strings.CutPrefix(k.sk, configSKPrefix)
	// Python's migration of limits leaves out the index keys, without which
	// listings of entities with limits would miss the item.
	if ofEntity && config && moved.text(attrGSI3PK) == "" {
		moved[attrGSI3PK], moved[attrGSI3SK] = text(configsPK(ns, resource)), text(entity)
	}

	return moved
}

// movedVersion returns a copy of the version record under its new key. It is
// written last, so it has the schema version of this package.
func movedVersion(legacy item) item {
	moved := movedItem(reservedNamespace, legacy)
	delete(moved, attrMovedTo)
	if isOlder(legacy) {
		moved[attrSchema] = text(schemaVersion)
	}
	return moved
}

// markMoved stores in the old version record that all originals were copied.
func (m *migrator) markMoved(ctx context.Context, ns string) error {
	in := &dynamodb.UpdateItemInput{
		TableName: &m.table, Key: legacyVersionKey().at(), UpdateExpression: aws.String("SET #to = :to"),
	}
	in.ConditionExpression, in.ExpressionAttributeNames, _ = present().parts()
	in.ExpressionAttributeNames["#to"] = attrMovedTo
	in.ExpressionAttributeValues = item{":to": text(ns)}

	_, err := m.slow.UpdateItem(ctx, in)
	if resultOf(err) == refused {
		return nil // another run has finished and deleted it
	}
	return m.explain(err)
}

// deleteOriginals deletes the originals that have a copy. If none is left, it
// deletes the old version record too.
func (m *migrator) deleteOriginals(ctx context.Context, ns string) error {
	err := inParallel(ctx, inBatches(m.originals(ctx), maxWrites), func(ctx context.Context, batch []item) error {
		return m.deleteCopied(ctx, ns, batch)
	})
	if err != nil || m.progress.Kept > 0 {
		return err
	}

	// Without the new record, the old one is the only sign that the table needs
	// no other migration.
	record, err := m.get(ctx, versionKey())
	if err != nil || record == nil {
		return err
	}
	return m.deleteAll(ctx, []key{legacyVersionKey()})
}

// deleteCopied deletes those originals that have a copy or do not need one.
func (m *migrator) deleteCopied(ctx context.Context, ns string, originals []item) error {
	var wanted []key
	for _, it := range originals {
		wanted = append(wanted, replacement(ns, it))
	}

	found, err := m.getAll(ctx, unique(wanted))
	if err != nil {
		return err
	}

	// Registries were counted anew, and the table may have removed the copy of
	// an expired item already.
	var done []key
	for i, it := range originals {
		if found[wanted[i]] != nil || isRegistry(it) || m.isExpired(it) {
			done = append(done, it.key())
		}
	}

	if err := m.deleteAll(ctx, done); err != nil {
		return err
	}
	m.report(Progress{Items: int64(len(done)), Kept: int64(len(originals) - len(done))})
	return nil
}

// replacement returns the key of the item that replaces an original.
func replacement(ns string, original item) key {
	moved := movedItem(ns, original)
	if strings.HasPrefix(moved.text(attrSK), legacyLimitSKPrefix) {
		if s, ok := legacyScope(ns, moved); ok {
			return configKey(ns, s.Entity, s.Resource)
		}
	}
	return moved.key()
}

// isExpired reports whether the TTL of an item has passed.
func (m *migrator) isExpired(it item) bool {
	ttl, err := it.number(attrTTL)
	return err == nil && ttl > 0 && ttl <= m.clock().Unix()
}

// unique returns keys without duplicates, which a request must not contain.
func unique(keys []key) []key {
	seen := map[key]bool{}
	var once []key
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			once = append(once, k)
		}
	}
	return once
}
