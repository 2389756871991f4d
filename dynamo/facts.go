package dynamo

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// factKey names a fact of one namespace.
type factKey struct {
	ns, kind string
	scope    limiter.Scope
}

// Kinds of facts.
const (
	factConfig    = "config" // limits and mode of a scope
	factEntity    = "entity" // whether an entity cascades, and its parent
	factNamespace = "space"  // whether the namespace is active
	factSwitch    = "switch" // the levels of an entity, or of all entities, that are off
)

// fact is the decoded record of a factKey: of a level, an entity, a namespace or
// its switches. It is immutable. If nothing is stored, its fields are zero.
type fact struct {
	config limiter.Config
	days   int64 // audit retention of the system level, 0 if not set
	place  chain.Place
	active bool
	exists bool // the namespace may be deleted, but is not being purged
	off    rules.Switches
}

// configFact returns the key of the fact about a level.
func (r *Repository) configFact(s limiter.Scope) factKey { return factKey{r.ns, factConfig, s} }

// entityFact returns the key of the fact about an entity.
func (r *Repository) entityFact(id string) factKey {
	return factKey{r.ns, factEntity, limiter.Scope{Entity: id}}
}

// switchFact returns the key of the fact about the switches of an entity, or of
// all entities if id is "".
func (r *Repository) switchFact(id string) factKey {
	return factKey{r.ns, factSwitch, limiter.Scope{Entity: id}}
}

// namespaceFact returns the key of the fact about the namespace.
func (r *Repository) namespaceFact() factKey { return factKey{ns: r.ns, kind: factNamespace} }

// key returns the key of the fact's item.
func (k factKey) key() key {
	switch k.kind {
	case factConfig:
		return configKey(k.ns, k.scope.Entity, k.scope.Resource)
	case factEntity:
		return metaKey(k.ns, k.scope.Entity)
	case factSwitch:
		return switchKey(k.ns, k.scope.Entity)
	}
	return namespaceIDKey(k.ns)
}

// decode decodes the fact in an item, which may be nil.
func (k factKey) decode(it item) (f *fact, err error) {
	f = &fact{}

	switch k.kind {
	case factConfig:
		if f.config, err = decodeConfig(k.scope, it); err == nil && k.scope == (limiter.Scope{}) {
			f.days, err = it.number(attrRetention)
		}
	case factEntity:
		f.place.Parent = it.text(attrParent)
		// Python accepts an entity as its own parent.
		f.place.Cascade = it.truth(attrCascade) && f.place.Parent != "" && f.place.Parent != k.scope.Entity
		f.place.Generation, err = it.number(attrGeneration)
	case factNamespace:
		f.active = it.text(attrStatus) == statusActive
		f.exists = it != nil && it.text(attrStatus) != statusPurging
	case factSwitch:
		f.off = decodeSwitches(k.scope.Entity, it)
	}
	return f, err
}

// facts returns the facts of keys, from the cache or the table. A now of 0 is
// unknown.
func (r *Repository) facts(ctx context.Context, now int64, keys ...factKey) ([]*fact, error) {
	facts, _, err := r.lookup(ctx, now, r.cache.life, keys)
	return facts, err
}

// getter reads items. Its map lacks items that do not exist.
type getter func(context.Context, []key) (map[key]item, error)

// lookup returns facts no older than maxAge, and reports as fresh whether this
// call has read all of them.
func (r *Repository) lookup(
	ctx context.Context, now int64, maxAge time.Duration, keys []factKey,
) (facts []*fact, fresh bool, err error) {
	facts, _, fresh, err = r.lookupWith(ctx, now, maxAge, keys, nil, r.getAll)
	return facts, fresh, err
}

// lookupWith returns facts as lookup does, and the items of more, which it reads
// together with the facts that have to be read. items is nil if more is empty.
func (r *Repository) lookupWith(
	ctx context.Context, now int64, maxAge time.Duration, keys []factKey, more []key, get getter,
) (facts []*fact, items map[key]item, fresh bool, err error) {
	at := r.moment(now)
	life := maxAge
	if len(more) > 0 {
		// The items are read in any case, so the call waits for its budget.
		life = 0
	}

	ctx, endBudget, err := r.cache.prepayLookup(ctx, at, life, keys)
	if err != nil {
		return nil, nil, false, err
	}
	defer endBudget()

	var readErr error
	facts, fresh, err = r.cache.lookup(ctx, at, maxAge, keys, func(wanted []factKey) ([]*fact, error) {
		var got []*fact
		got, items, readErr = r.read(ctx, wanted, more, get)
		return got, readErr
	})
	if err != nil || len(more) == 0 {
		return facts, nil, fresh, err
	}

	// Every fact was cached, so the read above did not take place.
	if readErr == nil && items == nil {
		_, items, readErr = r.read(ctx, nil, more, get)
	}

	// A stale fact may serve in an outage. A stale item may not.
	return facts, items, fresh, readErr
}

// read reads facts and the items of more from the table. The result also holds the
// items of the facts.
func (r *Repository) read(
	ctx context.Context, wanted []factKey, more []key, get getter,
) ([]*fact, map[key]item, error) {
	keys := make([]key, 0, len(wanted)+len(more))
	for _, k := range wanted {
		keys = append(keys, k.key())
	}
	for _, k := range more {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}

	items, err := get(ctx, keys)
	if err != nil {
		return nil, nil, err
	}

	facts := make([]*fact, len(wanted))
	for i, k := range wanted {
		if facts[i], err = k.decode(items[k.key()]); err != nil {
			return nil, nil, err
		}
		r.remember(k, facts[i])
	}
	return facts, items, nil
}

// remember keeps what the limiter asks for in an outage, when nothing can be read.
func (r *Repository) remember(k factKey, f *fact) {
	if k.kind == factSwitch {
		r.seen.set(k, f.off)
		return
	}
	r.rememberMode(k, f)
}

// rememberMode keeps the mode of the system level for OnUnavailable.
func (r *Repository) rememberMode(k factKey, f *fact) {
	if k == r.configFact(limiter.Scope{}) {
		r.modes.Store(r.ns, f.config.OnUnavailable)
	}
}

// OnUnavailable returns the stored mode as last seen.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	mode, _ := r.modes.Load(r.ns)
	m, _ := mode.(limiter.OnUnavailable)
	return m
}

// decodeConfig decodes the limits and the mode in an item, which may be nil.
func decodeConfig(s limiter.Scope, it item) (limiter.Config, error) {
	cfg := limiter.Config{Scope: s}
	for attr := range it {
		name, ok := limitOf(attr, configPrefix, fieldCapacity)
		if !ok {
			continue
		}
		l, err := decodeLimit(it, name)
		if err != nil {
			return cfg, err
		}
		cfg.Limits = append(cfg.Limits, l)
	}
	cfg.Limits = rules.Sorted(cfg.Limits)
	if s == (limiter.Scope{}) {
		cfg.OnUnavailable = storedMode(it)
	}
	return cfg, nil
}

// decodeLimit decodes one limit of a config item.
func decodeLimit(it item, name string) (limiter.Limit, error) {
	var n [3]int64
	for i, field := range []string{fieldCapacity, fieldAmount, fieldPeriod} {
		var err error
		if n[i], err = it.number(configAttr(name, field)); err != nil {
			if bad, ok := errors.AsType[*limiter.CorruptError](err); ok {
				bad.Reason += "; set the limits again"
			}
			return limiter.Limit{}, err
		}
	}

	if n[2] > maxSeconds {
		return limiter.Limit{}, it.corrupt("limit " + name + " has a period that is too long; set the limits again")
	}

	l := limiter.Custom(name, n[0], n[1], time.Duration(n[2])*time.Second)
	if err := it.setKind(&l); err != nil {
		return l, err
	}

	checked := l

	// Charges refuse a zone that this process cannot load. The limits
	// themselves are sound.
	checked.Zone = ""
	if err := checked.Validate(); err != nil {
		return l, it.corrupt(err.Error() + "; set the limits again")
	}

	return l, nil
}

const maxSeconds = math.MaxInt64 / int64(time.Second)

// storedMode returns the mode in the item of the system level, "" if it is unknown.
func storedMode(it item) limiter.OnUnavailable {
	switch m := limiter.OnUnavailable(it.text(attrMode)); m {
	case limiter.Allow, limiter.Block:
		return m
	}
	return ""
}
