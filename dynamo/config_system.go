package dynamo

import (
	"context"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// The system's item holds more than limits and a mode: the retention of audit
// events, and attributes of other programs. A change keeps all of these. New
// limits replace the whole item, so that limits added concurrently do not
// survive. The write is conditional on the attributes that it keeps.

// setSystem stores limits, a mode or both in the system's item.
func (r *Repository) setSystem(ctx context.Context, cfg limiter.Config, event types.TransactWriteItem) error {
	if cfg.Limits == nil {
		return r.setMode(ctx, cfg.OnUnavailable, event)
	}
	return r.putSystem(ctx, cfg.OnUnavailable == "", event, func(stored item) limiter.Config {
		return rules.Merged(limiter.Config{OnUnavailable: storedMode(stored)}, cfg)
	})
}

// putSystem replaces the system's item with the config that next returns for the
// stored one. If keepsMode is set, the write is refused if the mode has changed.
// If the config is empty, putSystem writes only the event.
func (r *Repository) putSystem(
	ctx context.Context, keepsMode bool, event types.TransactWriteItem, next func(stored item) limiter.Config,
) error {
	k := configKey(r.ns, "", "")
	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}

		stored, err := r.get(ctx, k)
		if err != nil {
			return err
		}

		cfg := next(stored)
		if rules.Empty(cfg) {
			return r.change(ctx, event)
		}

		it := newItem(r.ns, k)
		maps.Copy(it, otherAttributes(stored))
		it.setLimits(cfg.Limits)

		if cfg.OnUnavailable != "" {
			it[attrMode] = text(string(cfg.OnUnavailable))
		}

		err = r.change(ctx, r.putIf(it, unchanged(stored, keepsMode)), event)
		if err == nil {
			// In an outage nothing can be read, so the mode is kept beside the
			// cache.
			r.modes.Store(r.ns, cfg.OnUnavailable)
		}

		if _, changed := refusedAt(err, 0); !changed || try == maxTries {
			return err
		}
	}
}

// setMode stores a mode and keeps the limits, even damaged ones. For an empty
// mode it writes only the event.
func (r *Repository) setMode(ctx context.Context, mode limiter.OnUnavailable, event types.TransactWriteItem) error {
	if mode == "" {
		return r.change(ctx, event)
	}

	update := r.indexedUpdate(configKey(r.ns, "", ""), ", #m = :m, #v = if_not_exists(#v, :v)",
		map[string]string{"#m": attrMode, "#v": attrConfigVersion},
		item{":m": text(string(mode)), ":v": number(configVersion)})

	err := r.change(ctx, update, event)
	if err == nil {
		r.modes.Store(r.ns, mode)
	}
	return err
}

// removeSystem removes limits and mode from the system's item, and deletes the
// item if nothing else is left.
func (r *Repository) removeSystem(ctx context.Context, stored item, event types.TransactWriteItem) error {
	k := stored.key()

	// Of two calls that delete the same limits, the second must find none.
	holds := unchanged(stored, true).exists(limitAttribute(stored))
	write := r.deleteIf(k, holds)

	if rest := otherAttributes(stored); len(rest) > 0 {
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

// limitAttribute returns an attribute that exists as long as the limits of
// stored, or the item if it has none.
func limitAttribute(stored item) string {
	for attr := range stored {
		if _, ok := limitOf(attr, configPrefix, fieldCapacity); ok {
			return attr
		}
	}
	return attrPK
}

// otherAttributes returns the attributes of the system's item that SetConfig and
// DeleteConfig keep.
func otherAttributes(stored item) item {
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

// unchanged returns the condition that the other attributes of stored, and its
// mode if wanted, have not changed.
func unchanged(stored item, mode bool) *condition {
	if stored == nil {
		return absent()
	}

	kept := otherAttributes(stored)

	// Another call may add the retention, so that it must still be missing if
	// it was.
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
