package dynamo

import (
	"context"
	"strings"
)

// deleteOriginals deletes items that have their copy, and the version record if
// nothing is left.
func (m *migrator) deleteOriginals(ctx context.Context, ns string) error {
	err := inParallel(ctx, inBatches(m.originals(ctx), maxWrites), func(ctx context.Context, batch []item) error {
		return m.deleteCopied(ctx, ns, batch)
	})
	if err != nil || m.so.Kept > 0 {
		return err
	}
	record, err := m.get(ctx, versionKey())
	if err != nil || record == nil {
		return err
	}
	return m.deleteAll(ctx, []key{legacyVersionKey()})
}

func (m *migrator) deleteCopied(ctx context.Context, ns string, originals []item) error {
	var wanted []key
	for _, it := range originals {
		wanted = append(wanted, replacement(ns, it))
	}
	found, err := m.getAll(ctx, unique(wanted))
	if err != nil {
		return err
	}
	var done []key
	for i, it := range originals {
		if found[wanted[i]] != nil || isRegistry(it) || m.expired(it) {
			done = append(done, it.key())
		}
	}
	if err := m.deleteAll(ctx, done); err != nil {
		return err
	}
	m.report(Progress{Items: int64(len(done)), Kept: int64(len(originals) - len(done))})
	return nil
}

// replacement is where what an original held is now.
func replacement(ns string, original item) key {
	moved := movedItem(ns, original)
	if strings.HasPrefix(moved.text(attrSK), legacyLimitSKPrefix) {
		if s, ok := legacyScope(ns, moved); ok {
			return configKey(ns, s.Entity, s.Resource)
		}
	}
	return moved.key()
}

// expired tells whether the table would delete an item by itself.
func (m *migrator) expired(it item) bool {
	ttl, err := it.number(attrTTL)
	return err == nil && ttl > 0 && ttl <= m.clock().Unix()
}

// unique drops keys that come twice, which a request may not hold.
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
