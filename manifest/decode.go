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
		d.namespace: d.decodeNamespace, d.system: d.decodeSystem, d.resources: d.decodeResources,
		d.entities: d.decodeEntities,
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
	// More levels may follow, and one problem is enough.
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
	// Limits are counted before they are built, since an alias can repeat a
	// large level many times.
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

const shortForms = "a limit is RATE, RATE/PERIOD, RATE/PERIOD:BURST or RATE/PERIOD:within[=BURST], such as " +
	"100/min:150, " +
	"or CAPACITY@WINDOW[:ZONE], such as 1M@month or for money $50@month, with :shadow at the end for a " +
	"shadow limit, or a mapping"

// decodeShortLimit reads a limit as the command line spells it after the name.
func (d *decoder) decodeShortLimit(key, n *yaml.Node, path string) limiter.Limit {
	// The short form begins with the name, which must not contain a colon.
	before := len(d.problems)
	if d.validateLimit(key, path, limiter.PerMinute(key.Value, 1), before); len(d.problems) > before {
		return limiter.Limit{}
	}

	if rate := strings.TrimSuffix(n.Value, ":shadow"); burstOnly.MatchString(rate) {
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

// longLimit holds the values of a mapping, 0 or "" if absent.
type longLimit struct {
	capacity, burst, refill, period int64
	window, zone                    string
	shadow                          bool
	given                           []string // the keys
}

// decodeLongLimit reads a mapping. With a burst, the burst is the capacity of
// the limit, and the key capacity is the default of the refill amount. With a
// window it is a quota, which has neither a burst nor a refill.
func (d *decoder) decodeLongLimit(key, n *yaml.Node, path string) limiter.Limit {
	before := len(d.problems)
	l := d.readLongLimit(key.Value, n, path)

	// After other problems, the key may be there and misspelled.
	if !slices.Contains(l.given, d.capacity) && len(d.problems) == before {
		d.problem(key, path, "%s is missing: how many tokens can be taken at once", d.capacity)
	}

	limit := limiter.Custom(key.Value, cmp.Or(l.burst, l.capacity), cmp.Or(l.refill, l.capacity),
		time.Duration(cmp.Or(l.period, 60))*time.Second)

	isQuota, hasZone := slices.Contains(l.given, d.window), slices.Contains(l.given, d.zone)
	switch {
	case hasZone && !isQuota:
		d.problem(key, path, "%s needs %s: only a quota has a zone", d.zone, d.window)
	// One of the values cannot be read, which has been reported.
	case len(d.problems) > before:
	case hasZone && l.zone == "":
		d.problem(key, path, "%s is empty; give an IANA name such as Europe/Berlin, or leave it out for UTC", d.zone)
	case isQuota:
		limit = d.quota(key, path, l).In(l.zone)
	}

	limit.IsShadow = l.shadow
	d.validateLimit(key, path, limit, before)
	return limit
}

// readLongLimit reads the keys of the mapping of a limit.
func (d *decoder) readLongLimit(name string, n *yaml.Node, path string) longLimit {
	var l longLimit
	tokens := func(target *int64) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) { *target = d.decodeTokens(name, n, path) }
	}
	text := func(target *string) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) { *target, _ = d.decodeText(n, path) }
	}

	fields := map[string]func(*yaml.Node, string){
		d.capacity: tokens(&l.capacity), d.refillAmount: tokens(&l.refill),
		d.refillPeriod: func(n *yaml.Node, path string) {
			l.period = d.decodeNumber(n, path, int64(math.MaxInt64/time.Second))
		},
		d.window: text(&l.window), d.zone: text(&l.zone),
		d.shadow: func(n *yaml.Node, path string) { l.shadow = d.decodeBool(n, path) },
	}

	if d.burst != "" {
		fields[d.burst] = tokens(&l.burst)
	}

	l.given = d.decodeFields(n, path, fields)
	return l
}

// quota returns the quota that a mapping declares.
func (d *decoder) quota(key *yaml.Node, path string, l longLimit) limiter.Limit {
	for _, name := range []string{d.burst, d.refillAmount, d.refillPeriod} {
		if slices.Contains(l.given, name) {
			d.problem(key, path,
				"%s and %s exclude each other: a quota gains its whole capacity at the start of each window",
				d.window, name)
		}
	}

	every, err := limiter.ParseCalendar(l.window)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		d.problem(key, path, "%s %s, not %q", d.window, bad.Reason, clip(l.window))
	}
	return limiter.Quota(key.Value, l.capacity, every)
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
