package dynamo

import (
	"context"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// The item of the system holds more than limits and a mode: for how long audit
// events stay, and whatever else others put there. All that survives a change.
// New limits replace the whole item, so that no old ones remain whose names
// nobody has read; the condition is that what was carried over from the item
// read is still so.

// setSystem stores limits, a mode or both.
func (r *Repository) setSystem(ctx context.Context, cfg limiter.Config, event types.TransactWriteItem) error {
	if cfg.Limits == nil {
		return r.setMode(ctx, cfg.OnUnavailable, event)
	}
	return r.putSystem(ctx, cfg.OnUnavailable == "", event, func(stored item) limiter.Config {
		return rules.Merged(limiter.Config{OnUnavailable: storedMode(stored)}, cfg)
	})
}

// putSystem writes the item of the system anew, with what follows from the one
// that is stored, of which the mode may be kept. If that is nothing, only the
// event is written.
func (r *Repository) putSystem(ctx context.Context, keepsMode bool, event types.TransactWriteItem, following func(stored item) limiter.Config) error {
	k := configKey(r.ns, "", "")
	for try := 0; ; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		stored, err := r.get(ctx, k)
		if err != nil {
			return err
		}
		next := following(stored)
		if rules.Empty(next) {
			return r.change(ctx, event)
		}
		it := newItem(r.ns, k)
		maps.Copy(it, carried(stored))
		it.setLimits(next.Limits)
		if next.OnUnavailable != "" {
			it[attrMode] = text(string(next.OnUnavailable))
		}
		err = r.change(ctx, r.putIf(it, unchanged(stored, keepsMode)), event)
		if err == nil {
			r.modes.Store(r.ns, next.OnUnavailable)
		}
		if _, changed := refusedAt(err, 0); !changed || try == maxTries {
			return err
		}
	}
}

// setMode stores a mode and leaves the limits alone, whatever they are. No mode
// stores nothing but the event.
func (r *Repository) setMode(ctx context.Context, mode limiter.OnUnavailable, event types.TransactWriteItem) error {
	if mode == "" {
		return r.change(ctx, event)
	}
	update := r.indexedUpdate(configKey(r.ns, "", ""), ", #m = :m, #v = if_not_exists(#v, :v)",
		map[string]string{"#m": attrMode, "#v": attrConfigVersion}, item{":m": text(string(mode)), ":v": number(configVersion)})
	err := r.change(ctx, update, event)
	if err == nil {
		r.modes.Store(r.ns, mode)
	}
	return err
}

// removeSystem takes limits and mode out of the system's item, and the item
// itself if nothing else is in it.
func (r *Repository) removeSystem(ctx context.Context, stored item, event types.TransactWriteItem) error {
	k := stored.key()
	holds := unchanged(stored, true).exists(aLimit(stored))
	write := r.deleteIf(k, holds)
	if rest := carried(stored); len(rest) > 0 {
		it := newItem(r.ns, k)
		maps.Copy(it, rest)
		write = r.putIf(it, holds)
	}
	err := r.change(ctx, write, event)
	if err == nil {
		r.modes.Store(r.ns, limiter.OnUnavailable(""))
	}
	return err
}

// aLimit is an attribute that shows that nobody else has removed the limits, or
// the item, since stored was read.
func aLimit(stored item) string {
	for attr := range stored {
		if _, ok := limitOf(attr, configPrefix, fieldCapacity); ok {
			return attr
		}
	}
	return attrPK
}

// carried is what of the system's item is not for this package to change.
func carried(stored item) item {
	rest := item{}
	for attr, v := range stored {
		switch attr {
		case attrPK, attrSK, attrGSI4PK, attrGSI4SK, attrConfigVersion, attrMode:
		default:
			if !strings.HasPrefix(attr, configPrefix) {
				rest[attr] = v
			}
		}
	}
	return rest
}

// unchanged holds while what was carried over from stored is as it was, and the
// mode too if that is kept.
func unchanged(stored item, mode bool) *condition {
	if stored == nil {
		return absent()
	}
	kept := carried(stored)
	c := new(condition).same(stored, attrRetention)
	if mode {
		c.same(stored, attrMode)
	}
	for attr := range kept {
		if attr != attrRetention {
			c.same(stored, attr)
		}
	}
	return c
}
