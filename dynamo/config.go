package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetConfig stores limits, a mode or both, with their event. It also replaces
// damaged limits.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if err := checkLimits(len(cfg.Limits)); err != nil {
		return err
	}

	// The time is compared with the machine's clock before anything that may
	// take long.
	at := r.tableTime(ctx, ev.At)

	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}

	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}

	switch {
	case cfg.Scope == (limiter.Scope{}):
		err = r.setSystem(ctx, cfg, event)
	// Without limits a level stores nothing, but the change has its event.
	case rules.Empty(rules.Merged(limiter.Config{}, cfg)):
		err = r.change(ctx, event)
	case cfg.Scope.Entity == "":
		err = r.change(ctx, r.putIf(r.configItem(cfg), nil), r.countDefaults(cfg.Scope.Resource, "ADD"), event)
	default:
		err = r.setEntity(ctx, cfg, event)
	}

	r.configChanged(ctx, at, cfg.Scope, err)
	return err
}

// setEntity writes the config of an entity. It counts the config in the registry
// if it is new, or not indexed because Python's provisioner wrote it; the
// condition of the write finds that out. The count becomes too high if Python
// has overwritten a counted item. That only lists a resource without need, while
// a count that is too low would hide limits.
func (r *Repository) setEntity(ctx context.Context, cfg limiter.Config, event types.TransactWriteItem) error {
	it := r.configItem(cfg)

	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}

		err := r.change(ctx, r.putIf(it, new(condition).lacks(attrGSI3PK)), r.countLimits(cfg.Scope.Resource), event)
		if _, listed := refusedAt(err, 0); !listed {
			return err
		}

		err = r.change(ctx, r.putIf(it, new(condition).exists(attrGSI3PK)), event)

		// Another call may have deleted the item between the two writes.
		if _, deleted := refusedAt(err, 0); !deleted || try == maxTries {
			return err
		}
	}
}

// configItem returns the config item of an entity or a resource.
func (r *Repository) configItem(cfg limiter.Config) item {
	s := cfg.Scope
	it := newItem(r.ns, configKey(r.ns, s.Entity, s.Resource))

	resource := storedResource(s.Resource)
	it[attrResource] = text(resource)
	if s.Entity != "" {
		it[attrEntity] = text(s.Entity)
		it[attrGSI3PK], it[attrGSI3SK] = text(configsPK(r.ns, resource)), text(s.Entity)
	}

	it.setLimits(cfg.Limits)
	return it
}

// configVersion is constant: Python requires the attribute and never increments
// it.
const configVersion = 1

// setLimits adds limits to a config item.
func (it item) setLimits(limits []limiter.Limit) {
	it[attrConfigVersion] = number(configVersion)
	for _, l := range limits {
		amount, seconds := l.Refill, int64(l.Period/time.Second)

		// To Python a quota is a rate that hardly gains anything.
		if l.Window != 0 {
			amount, seconds = quotaAmount, quotaSeconds
			it[configAttr(l.Name, fieldWindow)] = text(rules.WindowText(l))
		}
		if l.IsShadow {
			it[configAttr(l.Name, fieldShadow)] = truth(true)
		}

		it[configAttr(l.Name, fieldCapacity)] = number(l.Capacity)
		it[configAttr(l.Name, fieldAmount)] = number(amount)
		it[configAttr(l.Name, fieldPeriod)] = number(seconds)
	}
}

// setKind makes l a quota or a shadow limit if the config item says so.
func (it item) setKind(l *limiter.Limit) (err error) {
	l.IsShadow = it.truth(configAttr(l.Name, fieldShadow))

	attr := configAttr(l.Name, fieldWindow)
	if it[attr] == nil {
		return nil
	}

	// The stored rate of a quota is for Python alone.
	l.Refill, l.Period = 0, 0
	if l.Window, l.Zone, err = rules.ParseWindow(it.text(attr)); err != nil {
		return it.corrupt(attr + ": " + err.Error() + "; set the limits again")
	}
	return nil
}

// configChanged drops cached limits and refusals after a write that began at a
// time. It does so after a failed write too, since its outcome may be unknown.
func (r *Repository) configChanged(ctx context.Context, at int64, s limiter.Scope, err error) {
	r.cache.evict(r.configFact(s))
	r.listed.evict(r.configFact(s))
	r.images.clearRefusals()

	// Such limits reach their bucket at once, for Python clients, which read
	// them only there. If that fails, the next charge repairs the bucket.
	if err == nil && s.Level() == "entity" {
		_ = r.syncBucket(ctx, at, s)
	}
}

// Config returns the stored config of a scope, bypassing the cache.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	it, err := r.getActive(ctx, configKey(r.ns, s.Entity, s.Resource))
	if err != nil {
		return limiter.Config{}, err
	}

	cfg, err := decodeConfig(s, it)
	if err != nil {
		return limiter.Config{}, err
	}

	r.rememberMode(r.configFact(s), &fact{config: cfg})
	return cfg, nil
}

// DeleteConfig deletes the config of a scope. It returns limiter.ErrNotFound if there are
// neither limits nor a mode.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	at := r.tableTime(ctx, ev.At)
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}

	err := r.deleteConfig(ctx, s, ev)
	r.configChanged(ctx, at, s, err)
	return err
}

func (r *Repository) deleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	k := configKey(r.ns, s.Entity, s.Resource)
	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}

		stored, err := r.get(ctx, k)
		if err != nil {
			return err
		}

		held := heldConfig(s, stored)
		if rules.Empty(held) {
			return fmt.Errorf("limits of %s: %w", rules.ScopeName(s), limiter.ErrNotFound)
		}

		event, err := r.auditPut(ctx, rules.Deleted(held, ev))
		if err != nil {
			return err
		}

		err = r.removeConfig(ctx, s, stored, event)

		// Others have changed or removed the item since it was read.
		if _, changed := refusedAt(err, 0); !changed || try == maxTries {
			return err
		}
	}
}

// removeConfig deletes a config item together with its entry in a registry. If
// the item has changed, the transaction is refused at its first item.
func (r *Repository) removeConfig(
	ctx context.Context, s limiter.Scope, stored item, event types.TransactWriteItem,
) error {
	switch k := stored.key(); {
	case s.Entity != "":
		return r.removeEntityConfig(ctx, k, event)
	case s.Resource != "":
		return r.change(ctx, r.deleteIf(k, present()), r.countDefaults(s.Resource, "DELETE"), event)
	}
	return r.removeSystem(ctx, stored, event)
}

// heldConfig returns the config of an item with the names of its limits alone.
// It reads no values, so that damaged limits can be deleted.
func heldConfig(s limiter.Scope, it item) limiter.Config {
	held := limiter.Config{Scope: s}
	for attr := range it {
		if name, ok := limitOf(attr, configPrefix, fieldCapacity); ok {
			held.Limits = append(held.Limits, limiter.Limit{Name: name})
		}
	}

	held.Limits = rules.Sorted(held.Limits)
	if s == (limiter.Scope{}) {
		held.OnUnavailable = storedMode(it)
	}

	return held
}
