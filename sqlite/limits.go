package sqlite

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// limitCache caches parsed limits by their JSON text. Many buckets share few
// limits.
type limitCache struct {
	mu sync.RWMutex
	by map[string][]limiter.Limit
}

func newLimitCache() *limitCache { return &limitCache{by: map[string][]limiter.Limit{}} }

func (c *limitCache) limits(text string) ([]limiter.Limit, error) {
	c.mu.RLock()
	limits, ok := c.by[text]
	c.mu.RUnlock()
	if ok {
		return limits, nil
	}

	limits, err := parseLimits(text)
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	const maxTexts = 10_000
	if len(c.by) >= maxTexts {
		clear(c.by)
	}
	c.by[text] = limits
	return limits, nil
}

// parseLimits parses a JSON list of limits, and sorts them by name. A zone that
// this process cannot load is no damage: another process has stored it.
// rules.CheckZones detects it.
func parseLimits(text string) ([]limiter.Limit, error) {
	var limits []limiter.Limit
	err := json.Unmarshal([]byte(text), &limits)
	if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok && invalid.Field == "zone" {
		limits, err = parseZoned(text)
	}

	if err != nil {
		return nil, err
	}
	return rules.Sorted(limits), nil
}

// parseZoned parses limits without checking that their zones can be loaded.
func parseZoned(text string) ([]limiter.Limit, error) {
	var objects []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &objects); err != nil {
		return nil, err
	}

	limits := make([]limiter.Limit, len(objects))
	for i, o := range objects {
		var zone string
		if text, ok := o["zone"]; ok {
			if err := json.Unmarshal(text, &zone); err != nil {
				return nil, err
			}
			delete(o, "zone")
		}

		plain, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(plain, &limits[i])
		}
		limits[i].Zone = zone
		// Rates and hours have no zone, so they can be checked in full. Other
		// limits would be refused because of theirs.
		if err == nil && limits[i].Window <= limiter.EveryHour {
			err = limits[i].Validate()
		}
		if err != nil {
			return nil, err
		}
	}
	return limits, nil
}
