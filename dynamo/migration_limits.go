package dynamo

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// Before 0.8.0 every limit was an item of its own, under the entity, the
// resource or the system. Since then a level is one item. The migration first
// writes all limits of a level in one item, and then deletes the old items. If a
// level already has its item, the migration only deletes the old ones.

func (m *migrator) limitsPending() bool { return m.current == nil || isOlder(m.current) }

// migrateLimits converts the limits in legacyNamespace. No other namespace ever
// held limits of the old form.
func (m *migrator) migrateLimits(ctx context.Context) error {
	if err := m.convertLimits(ctx, legacyNamespace); err != nil {
		return err
	}
	return m.updateSchema(ctx)
}

// convertLimits converts all limits of a namespace.
func (m *migrator) convertLimits(ctx context.Context, ns string) error {
	r := &Repository{store: m.store, ns: ns}
	return inParallel(ctx, m.legacyPartitions(ctx, ns), func(ctx context.Context, pk string) error {
		levels, err := m.legacyLevels(ctx, ns, pk)
		if err != nil {
			return err
		}

		for scope, items := range levels {
			if err := m.convertLevel(ctx, r, scope, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// legacyPartitions iterates over the partitions that hold limits of the old form.
// It may yield one more than once.
func (m *migrator) legacyPartitions(ctx context.Context, ns string) iter.Seq2[string, error] {
	in := &dynamodb.ScanInput{
		FilterExpression:          aws.String("begins_with(#pk, :pk) AND begins_with(#sk, :sk)"),
		ProjectionExpression:      aws.String("#pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{":pk": text(namespacePrefix(ns)), ":sk": text(legacyLimitSKPrefix)},
	}
	return func(yield func(string, error) bool) {
		last := ""
		for it, err := range m.scan(ctx, in) {
			pk := it.text(attrPK)
			// A scan returns the items of a partition one after another, so the
			// last key suffices to leave out most duplicates.
			if err == nil && pk == last {
				continue
			}

			last = pk
			if !yield(pk, err) {
				return
			}
		}
	}
}

// legacyLevels returns the old limits of a partition by level. It ignores items
// that are not limits, so that they stay.
func (m *migrator) legacyLevels(ctx context.Context, ns, pk string) (map[limiter.Scope][]item, error) {
	levels := map[limiter.Scope][]item{}
	for it, err := range m.query(ctx, ns, queryPrefix(pk, legacyLimitSKPrefix)) {
		if err != nil {
			return nil, err
		}
		if scope, ok := legacyScope(ns, it); ok {
			levels[scope] = append(levels[scope], it)
		}
	}
	return levels, nil
}

// legacyScope returns the level of an item of the old form, and whether the item
// is a limit.
func legacyScope(ns string, it item) (limiter.Scope, bool) {
	if it.text(attrLimitName) == "" {
		return limiter.Scope{}, false
	}

	pk := it.text(attrPK)
	if pk == systemPK(ns) {
		return limiter.Scope{}, true
	}

	if resource, ok := strings.CutPrefix(pk, resourcePK(ns, "")); ok {
		return limiter.Scope{Resource: resource}, resource != ""
	}

	entity, ok := strings.CutPrefix(pk, entityPKPrefix(ns))
	resource := it.text(attrResource)
	return limiter.Scope{Entity: entity, Resource: portResource(resource)}, ok && entity != "" && resource != ""
}

// legacyLimit decodes a limit of the old form. The old burst is the capacity, and
// the old capacity repeats the refill.
func legacyLimit(it item) (limiter.Limit, error) {
	n := map[string]int64{}
	for _, attr := range []string{attrLimitBurst, attrLimitCapacity, attrLimitRefill, attrLimitSeconds} {
		var err error
		if n[attr], err = it.number(attr); err != nil {
			return limiter.Limit{}, err
		}
	}

	// A longer period would overflow a time.Duration.
	seconds := min(n[attrLimitSeconds], maxSeconds)
	l := limiter.Custom(it.text(attrLimitName), cmp.Or(n[attrLimitBurst], n[attrLimitCapacity]), n[attrLimitRefill],
		time.Duration(seconds)*time.Second)

	if err := l.Validate(); err != nil {
		return l, it.corrupt(err.Error() + "; repair or delete the item")
	}
	return l, nil
}

// convertLevel stores the limits of a level, unless it has limits, and deletes
// the old items.
func (m *migrator) convertLevel(ctx context.Context, r *Repository, scope limiter.Scope, legacy []item) error {
	cfg := limiter.Config{Scope: scope}
	var keys []key
	for _, it := range legacy {
		l, err := legacyLimit(it)
		if err != nil {
			return err
		}
		cfg.Limits, keys = append(cfg.Limits, l), append(keys, it.key())
	}

	// The old items are deleted last, so that a crash in between loses no
	// limit.
	if err := m.storeLevel(ctx, r, cfg); err != nil {
		return err
	}
	if err := m.deleteAll(ctx, keys); err != nil {
		return err
	}

	m.report(Progress{Items: int64(len(keys))})
	return nil
}

// storeLevel stores the limits of a level, unless it has limits.
func (m *migrator) storeLevel(ctx context.Context, r *Repository, cfg limiter.Config) error {
	m.registryMu.Lock()
	defer m.registryMu.Unlock()
	for try := 0; ; try++ {
		stored, err := m.get(ctx, configKey(r.ns, cfg.Scope.Entity, cfg.Scope.Resource))
		if err != nil {
			return err
		}

		// The system's item may hold a mode or other attributes, and no limits
		// yet.
		if stored != nil && (cfg.Scope != limiter.Scope{} || len(heldConfig(cfg.Scope, stored).Limits) > 0) {
			return nil
		}

		err = m.change(ctx, r.newLevel(cfg, stored)...)
		if resultOf(err) != refused {
			return err
		}

		if err := m.next(ctx, try, err); err != nil {
			return err
		}
	}
}

// newLevel returns the writes that store the limits of a level without limits,
// and its entry in the registry. They keep the other attributes of the system's
// item.
func (r *Repository) newLevel(cfg limiter.Config, stored item) []types.TransactWriteItem {
	switch s := cfg.Scope; {
	case s.Entity != "":
		return []types.TransactWriteItem{r.putIf(r.configItem(cfg), absent()), r.countLimits(s.Resource)}
	case s.Resource != "":
		return []types.TransactWriteItem{r.putIf(r.configItem(cfg), absent()), r.countDefaults(s.Resource, "ADD")}
	}

	it := newItem(r.ns, configKey(r.ns, "", ""))
	maps.Copy(it, otherAttributes(stored))
	if mode, ok := stored[attrMode]; ok {
		it[attrMode] = mode
	}

	it.setLimits(cfg.Limits)
	return []types.TransactWriteItem{r.putIf(it, unchanged(stored, true))}
}
