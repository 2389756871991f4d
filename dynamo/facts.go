package dynamo

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// factKey names a fact about one namespace.
type factKey struct {
	ns, kind string
	scope    limiter.Scope
}

// Kinds of facts.
const (
	factConfig    = "config" // limits and mode of a scope
	factEntity    = "entity" // whether an entity cascades, and to whom
	factNamespace = "space"  // whether the namespace is active
)

// fact is what is stored under a factKey. It is immutable. One about something
// that is not stored has the zero value of what it would say.
type fact struct {
	config  limiter.Config
	days    int64 // of audit retention, 0 if not set; at system scope
	cascade bool
	parent  string
	active  bool
	there   bool // the namespace may be deleted, but its data are not being purged
}

func (r *Repository) configFact(s limiter.Scope) factKey { return factKey{r.ns, factConfig, s} }
func (r *Repository) entityFact(id string) factKey {
	return factKey{r.ns, factEntity, limiter.Scope{Entity: id}}
}
func (r *Repository) namespaceFact() factKey { return factKey{ns: r.ns, kind: factNamespace} }

// key is where the fact is stored.
func (k factKey) key() key {
	switch k.kind {
	case factConfig:
		return configKey(k.ns, k.scope.Entity, k.scope.Resource)
	case factEntity:
		return metaKey(k.ns, k.scope.Entity)
	}
	return namespaceIDKey(k.ns)
}

// decode is the fact in an item, which may be missing.
func (k factKey) decode(it item) (f *fact, err error) {
	f = &fact{}
	switch k.kind {
	case factConfig:
		if f.config, err = decodeConfig(k.scope, it); err == nil && k.scope == (limiter.Scope{}) {
			f.days, err = it.number(attrRetention)
		}
	case factEntity:
		f.parent = it.text(attrParent)
		f.cascade = it.truth(attrCascade) && f.parent != "" && f.parent != k.scope.Entity // which Python accepts
	case factNamespace:
		f.active = it.text(attrStatus) == statusActive
		f.there = it != nil && it.text(attrStatus) != statusPurging
	}
	return f, err
}

// facts are those of keys, from the cache or the table. A now of 0 is unknown.
func (r *Repository) facts(ctx context.Context, now int64, keys ...factKey) ([]*fact, error) {
	facts, _, err := r.lookup(ctx, now, r.cache.life, keys)
	return facts, err
}

// getter reads items; those that are not there are not in the map.
type getter func(context.Context, []key) (map[key]item, error)

// lookup is facts no older than life. It reports whether all of them were read.
func (r *Repository) lookup(ctx context.Context, now int64, life time.Duration, keys []factKey) (facts []*fact, fresh bool, err error) {
	return r.lookupBeside(ctx, now, life, keys, nil, r.getAll)
}

// lookupBeside is lookup that also reads the items in beside, along with
// whatever facts have to be read.
func (r *Repository) lookupBeside(ctx context.Context, now int64, life time.Duration, keys []factKey, beside map[key]item, get getter) (facts []*fact, fresh bool, err error) {
	done := len(beside) == 0
	var failed error
	facts, fresh, err = r.cache.lookup(ctx, moment{r.clock(), now}, life, keys, func(wanted []factKey) ([]*fact, error) {
		done = true
		var got []*fact
		got, failed = r.read(ctx, wanted, beside, get)
		return got, failed
	})
	if err == nil && len(beside) > 0 && failed != nil { // old facts will do, but nothing stands in for the items
		err = failed
	}
	if err == nil && !done {
		_, err = r.read(ctx, nil, beside, get)
	}
	return facts, fresh, err
}

// read reads facts, and the items in beside, from the table.
func (r *Repository) read(ctx context.Context, wanted []factKey, beside map[key]item, get getter) ([]*fact, error) {
	keys := make([]key, 0, len(wanted)+len(beside))
	for _, k := range wanted {
		keys = append(keys, k.key())
	}
	for k := range beside {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	found, err := get(ctx, keys)
	if err != nil {
		return nil, err
	}
	facts := make([]*fact, len(wanted))
	for i, k := range wanted {
		if facts[i], err = k.decode(found[k.key()]); err != nil {
			return nil, err
		}
		r.learn(k, facts[i])
	}
	for k := range beside {
		beside[k] = found[k]
	}
	return facts, nil
}

// learn remembers the mode that is stored with the system's limits: it is asked
// for when nothing can be read.
func (r *Repository) learn(k factKey, f *fact) {
	if k == r.configFact(limiter.Scope{}) {
		r.modes.Store(r.ns, f.config.OnUnavailable)
	}
}

// OnUnavailable is the stored mode as last seen.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	mode, _ := r.modes.Load(r.ns)
	m, _ := mode.(limiter.OnUnavailable)
	return m
}

// decodeConfig is the limits and the mode in an item, which may be missing.
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

// decodeLimit is one limit of a config item.
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
	if err := l.Validate(); err != nil {
		return l, it.corrupt(err.Error() + "; set the limits again")
	}
	return l, nil
}

const maxSeconds = math.MaxInt64 / int64(time.Second)

// storedMode is the mode in the system's item; one that nobody knows is none.
func storedMode(it item) limiter.OnUnavailable {
	switch m := limiter.OnUnavailable(it.text(attrMode)); m {
	case limiter.Allow, limiter.Block:
		return m
	}
	return ""
}
