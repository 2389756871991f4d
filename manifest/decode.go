package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Bounds of a manifest. Without them, aliases of aliases could make a small file
// arbitrarily large.
const (
	maxLevels         = 100_000
	maxLimits         = 500_000 // of all levels
	maxLimitsPerLevel = 1_000
	maxProblems       = 1_000 // reported
)

// decoder turns nodes into a manifest and collects the problems.
type decoder struct {
	dialect
	out        Manifest
	limitCount int // of all levels
	problems   []Problem
}

func decode(root *yaml.Node, in dialect) (*Manifest, error) {
	d := &decoder{dialect: in}
	fields := map[string]func(*yaml.Node, string){
		d.namespace: d.decodeNamespace, d.system: d.decodeSystem, d.resources: d.decodeResources, d.entities: d.decodeEntities,
	}
	for _, key := range d.ignored {
		fields[key] = func(*yaml.Node, string) {}
	}
	if root.Kind != yaml.MappingNode {
		d.problem(root, "", "a manifest is a mapping with the keys %s", d.joinKeys(fields))
	} else {
		d.decodeFields(root, "", fields)
	}
	if len(d.problems) > 0 {
		return nil, &ParseError{sortProblems(d.problems)}
	}
	return d.out.sorted(), nil
}

// full reports whether a bound of the manifest is exceeded.
func (d *decoder) full() bool {
	return len(d.out.Levels) > maxLevels || d.limitCount > maxLimits || len(d.problems) >= maxProblems
}

func (d *decoder) problem(at *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{at.Line, at.Column, path, fmt.Sprintf(format, args...)})
}

func (d *decoder) decodeNamespace(n *yaml.Node, path string) {
	name, ok := d.decodeText(n, path)
	if !ok {
		return
	}
	if err := (limiter.Namespace{Name: name}).Validate(); err != nil {
		d.problem(n, path, "%v", err)
	}
	d.out.Namespace = name
}

func (d *decoder) decodeSystem(n *yaml.Node, path string) {
	var level limiter.Config
	d.decodeFields(n, path, map[string]func(*yaml.Node, string){
		d.onUnavailable: func(n *yaml.Node, path string) {
			mode, ok := d.decodeText(n, path)
			if level.OnUnavailable = limiter.OnUnavailable(mode); ok && !validMode(level.OnUnavailable) {
				d.problem(n, path, "must be %s, not %q", modes, mode)
			}
		},
		d.limits: func(n *yaml.Node, path string) { level.Limits = d.decodeLimits(n, path) },
	})
	d.addLevel(n, path, level)
}

func (d *decoder) decodeResources(n *yaml.Node, path string) {
	d.eachEntry(n, path, func(key, n *yaml.Node, path string) {
		if err := validateResource(key.Value); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.decodeLevel(n, path, limiter.Scope{Resource: key.Value})
	})
}

func (d *decoder) decodeEntities(n *yaml.Node, path string) {
	d.eachEntry(n, path, func(key, n *yaml.Node, path string) {
		entity := key.Value
		if err := (limiter.Entity{ID: entity}).Validate(); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.decodeFields(n, path, map[string]func(*yaml.Node, string){
			d.resources: func(n *yaml.Node, path string) { d.decodeEntity(n, path, entity) },
		})
	})
}

func (d *decoder) decodeEntity(n *yaml.Node, path, entity string) {
	d.eachEntry(n, path, func(key, n *yaml.Node, path string) {
		s := limiter.Scope{Entity: entity, Resource: key.Value}
		if s.Resource == defaultResource {
			s.Resource = ""
		} else if err := validateResource(s.Resource); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.decodeLevel(n, path, s)
	})
}

func (d *decoder) decodeLevel(n *yaml.Node, path string, s limiter.Scope) {
	level := limiter.Config{Scope: s}
	d.decodeFields(n, path, map[string]func(*yaml.Node, string){
		d.limits: func(n *yaml.Node, path string) { level.Limits = d.decodeLimits(n, path) },
	})
	d.addLevel(n, path, level)
}

func (d *decoder) addLevel(n *yaml.Node, path string, level limiter.Config) {
	if d.out.Levels = append(d.out.Levels, level); len(d.out.Levels) == maxLevels+1 {
		d.problem(n, path, "a manifest has at most %d levels; use several namespaces", maxLevels)
	}
}

// decodeLimits reads the limits of a level, unless there are too many.
func (d *decoder) decodeLimits(n *yaml.Node, path string) (limits []limiter.Limit) {
	count := len(resolveAlias(n).Content) / 2
	if count > maxLimitsPerLevel {
		d.problem(n, path, "a level has at most %d limits, not %d", maxLimitsPerLevel, count)
		return nil
	}
	if d.limitCount += count; d.limitCount > maxLimits {
		d.problem(n, path, "a manifest has at most %d limits; use several namespaces", maxLimits)
		return nil
	}
	d.eachEntry(n, path, func(key, n *yaml.Node, path string) {
		limits = append(limits, d.decodeLimit(key, n, path))
	})
	return limits
}

// decodeLimit reads a limit in its long or its short form.
func (d *decoder) decodeLimit(key, n *yaml.Node, path string) limiter.Limit {
	if value := resolveAlias(n); d.short && value.Kind == yaml.ScalarNode {
		switch value.ShortTag() {
		case tagInt, tagFloat:
			return d.decodeRate(key, value, path)
		case tagText:
			return d.decodeShortLimit(key, value, path)
		}
	}
	return d.decodeLongLimit(key, n, path)
}

// decodeRate reads a bare number, which is a rate per minute.
func (d *decoder) decodeRate(key, n *yaml.Node, path string) limiter.Limit {
	before := len(d.problems)
	limit := limiter.PerMinute(key.Value, d.decodeNumber(n, path, bucket.MaxTokens))
	d.validateLimit(key, path, limit, before)
	return limit
}

// burstOnly matches a burst without a period, such as 100:15. YAML 1.1 reads
// that as a number to the base of 60.
var burstOnly = regexp.MustCompile(`^[0-9]+:`)

const shortForms = "a limit is RATE, RATE/PERIOD, RATE/PERIOD:BURST or RATE/PERIOD:within[=BURST], such as 100/min:150, or a mapping"

// decodeShortLimit reads a limit as the command line spells it after the name.
func (d *decoder) decodeShortLimit(key, n *yaml.Node, path string) limiter.Limit {
	before := len(d.problems)
	if d.validateLimit(key, path, limiter.PerMinute(key.Value, 1), before); len(d.problems) > before {
		return limiter.Limit{}
	}
	if burstOnly.MatchString(n.Value) {
		d.problem(n, path, "it is %q, but a burst has to follow a period; %s", clip(n.Value), shortForms)
		return limiter.Limit{}
	}
	limit, err := limiter.ParseLimit(key.Value + ":" + n.Value)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		why, _, _ := strings.Cut(bad.Reason, "; a limit is ")
		d.problem(n, path, "it is %q, but %s; %s", clip(n.Value), why, shortForms)
	}
	return limit
}

// decodeLongLimit reads a mapping. With a burst, the burst is the capacity of
// the limit, and the key capacity is the default of the refill amount.
func (d *decoder) decodeLongLimit(key, n *yaml.Node, path string) limiter.Limit {
	var capacity, burst, refill int64
	period := int64(time.Minute / time.Second)
	into := func(target *int64, maxValue int64) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) { *target = d.decodeNumber(n, path, maxValue) }
	}
	fields := map[string]func(*yaml.Node, string){
		d.capacity: into(&capacity, bucket.MaxTokens), d.refillAmount: into(&refill, bucket.MaxTokens),
		d.refillPeriod: into(&period, int64(math.MaxInt64/time.Second)),
	}
	if d.burst != "" {
		fields[d.burst] = into(&burst, bucket.MaxTokens)
	}
	before := len(d.problems)
	if given := d.decodeFields(n, path, fields); !slices.Contains(given, d.capacity) && len(d.problems) == before {
		d.problem(key, path, "%s is missing: how many tokens can be taken at once", d.capacity)
	}
	limit := limiter.Custom(key.Value, cmp.Or(burst, capacity), cmp.Or(refill, capacity), time.Duration(period)*time.Second)
	d.validateLimit(key, path, limit, before)
	return limit
}

// validateLimit checks a limit, unless decoding it has already added to the
// problems before.
func (d *decoder) validateLimit(key *yaml.Node, path string, limit limiter.Limit, before int) {
	if len(d.problems) > before {
		return
	}
	if err := limit.Validate(); err != nil {
		d.problem(key, path, "%v", err)
	}
}

// clip shortens text for a problem.
func clip(text string) string {
	const maxLen = 50
	if len(text) <= maxLen {
		return text
	}
	return text[:maxLen] + "..."
}
