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

// Before 0.10.0 keys had no namespace. Each such item is copied to the key it
// has in the namespace default, unless that is taken. The version record comes
// last, and the old one is marked then: that is how a later run knows that all
// was copied.

func (m *migrator) keysPending() bool {
	if m.legacy == nil {
		return m.current == nil // nothing is known about the table
	}
	return m.legacy.text(attrMovedTo) == "" || m.options.DeleteOriginals
}

func (m *migrator) migrateKeys(ctx context.Context) error {
	ns := m.legacy.text(attrMovedTo)
	if ns == "" || m.options.All {
		home, err := m.register(ctx, m.clock(), defaultNamespace)
		if err != nil {
			return err
		}
		ns = home.ID
		if err := m.copyOriginals(ctx, ns); err != nil {
			return err
		}
	}
	if !m.options.DeleteOriginals {
		return nil
	}
	return m.deleteOriginals(ctx, ns)
}

// originals are the items without a namespace, but for the version record.
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

// copyOriginals copies everything, and then says so.
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
	if limits.Load() { // a table from before 0.8.0
		if err := m.convertLimits(ctx, ns); err != nil {
			return err
		}
	}
	if m.legacy == nil {
		return nil
	}
	if err := m.putNew(ctx, movedVersion(m.legacy)); err != nil && resultOf(err) != refused {
		return m.explain(err)
	}
	return m.markMoved(ctx, ns)
}

// copyOriginal copies an item unless its place is taken. Registries are not
// copied: each config that is copied is entered anew, in the same transaction,
// so that the count is right however often this is repeated, and whatever
// clients of the new release have entered before.
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
		m.registry.Lock()
		err = m.change(ctx, m.putIf(moved, absent()), *entry)
		m.registry.Unlock()
	}
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

// registryEntry enters a config that is moved in its registry; nil if the item
// is no config of an entity or a resource.
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

// movedItem is an item in its namespace.
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
	if ofEntity && config && moved.text(attrGSI3PK) == "" { // the old migration of limits left it out
		moved[attrGSI3PK], moved[attrGSI3SK] = text(configsPK(ns, resource)), text(entity)
	}
	return moved
}

// movedVersion is the version record in its place. It is written when all is
// done, so it may claim this package's schema.
func movedVersion(legacy item) item {
	moved := movedItem(reservedNamespace, legacy)
	delete(moved, attrMovedTo)
	if older(legacy) {
		moved[attrSchema] = text(schemaVersion)
	}
	return moved
}

// markMoved notes in the old version record that everything has its copy.
func (m *migrator) markMoved(ctx context.Context, ns string) error {
	in := &dynamodb.UpdateItemInput{TableName: &m.table, Key: legacyVersionKey().at(), UpdateExpression: aws.String("SET #to = :to")}
	in.ConditionExpression, in.ExpressionAttributeNames, _ = present().parts()
	in.ExpressionAttributeNames["#to"] = attrMovedTo
	in.ExpressionAttributeValues = item{":to": text(ns)}
	_, err := m.slow.UpdateItem(ctx, in)
	if resultOf(err) == refused {
		return nil // another run has finished and deleted it
	}
	return m.explain(err)
}
