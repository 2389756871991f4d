package manifest

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
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
	yamlfile.Reader
	out        Manifest
	limitCount int // of all levels
}

func newDecoder(in dialect) *decoder {
	d := &decoder{dialect: in}
	d.Form = yamlfile.Form{
		Empty: "the file is empty; a manifest that declares nothing is {}",
		Second: "another document begins here; a manifest is one document, so put each namespace in a file " +
			"of its own",
		Anchors:     true,
		Merge:       "merge keys are not supported; refer to the whole section instead, as in *name",
		NullIsEmpty: true,
		TextPrefix:  "the text ",
		Full:        d.full,
	}
	return d
}

// err returns the problems, or nil if there are none.
func (d *decoder) err() error {
	if len(d.Problems) == 0 {
		return nil
	}

	all := make([]Problem, len(d.Problems))
	for i, p := range d.Problems {
		all[i] = Problem(p)
	}
	return &ParseError{sortProblems(all)}
}

func (d *decoder) decode(root yamlfile.Node) (*Manifest, error) {
	fields := yamlfile.Fields{
		d.namespace: d.decodeNamespace, d.system: d.decodeSystem, d.resources: d.decodeResources,
		d.entities: d.decodeEntities,
	}

	if root.Kind != yaml.MappingNode {
		d.Problem(root, "a manifest is a mapping with the keys %s", fields.Keys())
	} else {
		d.Fields(root, fields)
	}

	if err := d.err(); err != nil {
		return nil, err
	}
	return d.out.sorted(), nil
}

// full reports whether a bound of the manifest is exceeded, which is reported
// already.
func (d *decoder) full(yamlfile.Node) bool {
	return len(d.out.Levels) > maxLevels || d.limitCount > maxLimits || len(d.Problems) >= maxProblems
}

func (d *decoder) decodeNamespace(n yamlfile.Node) {
	name, ok := d.Text(n)
	if !ok {
		return
	}

	if err := (limiter.Namespace{Name: name}).Validate(); err != nil {
		d.Problem(n.Used(), "%v", err)
	}
	d.out.Namespace = name
}

func (d *decoder) decodeSystem(n yamlfile.Node) {
	var level limiter.Config
	d.Fields(n, yamlfile.Fields{
		d.onUnavailable: func(n yamlfile.Node) {
			mode, ok := d.Text(n)
			if level.OnUnavailable = limiter.OnUnavailable(mode); ok && !validMode(level.OnUnavailable) {
				d.Problem(n.Used(), "must be %s, not %q", modes, mode)
			}
		},
		d.limits: func(n yamlfile.Node) { level.Limits = d.decodeLimits(n) },
	})
	d.addLevel(n, level)
}

func (d *decoder) decodeResources(n yamlfile.Node) {
	d.Entries(n, func(key, n yamlfile.Node) {
		if err := validateResource(key.Value); err != nil {
			d.Problem(key, "%v", err)
		}
		d.decodeLevel(n, limiter.Scope{Resource: key.Value})
	})
}

func (d *decoder) decodeEntities(n yamlfile.Node) {
	d.Entries(n, func(key, n yamlfile.Node) {
		entity := key.Value
		if err := (limiter.Entity{ID: entity}).Validate(); err != nil {
			d.Problem(key, "%v", err)
		}
		d.Fields(n, yamlfile.Fields{
			d.resources: func(n yamlfile.Node) { d.decodeEntity(n, entity) },
		})
	})
}

func (d *decoder) decodeEntity(n yamlfile.Node, entity string) {
	d.Entries(n, func(key, n yamlfile.Node) {
		s := limiter.Scope{Entity: entity, Resource: key.Value}
		if s.Resource == defaultResource {
			s.Resource = ""
		} else if err := validateResource(s.Resource); err != nil {
			d.Problem(key, "%v", err)
		}
		d.decodeLevel(n, s)
	})
}

func (d *decoder) decodeLevel(n yamlfile.Node, s limiter.Scope) {
	level := limiter.Config{Scope: s}
	d.Fields(n, yamlfile.Fields{
		d.limits: func(n yamlfile.Node) { level.Limits = d.decodeLimits(n) },
	})
	d.addLevel(n, level)
}

func (d *decoder) addLevel(n yamlfile.Node, level limiter.Config) {
	// More levels may follow, and one problem is enough.
	if d.out.Levels = append(d.out.Levels, level); len(d.out.Levels) == maxLevels+1 {
		d.Problem(n.Used(), "a manifest has at most %d levels; use several namespaces", maxLevels)
	}
}

// decodeLimits reads the limits of a level, unless there are too many.
func (d *decoder) decodeLimits(n yamlfile.Node) (limits []limiter.Limit) {
	count := len(n.Content) / 2
	if count > maxLimitsPerLevel {
		d.Problem(n.Used(), "a level has at most %d limits, not %d", maxLimitsPerLevel, count)
		return nil
	}
	// Limits are counted before they are built, since an alias can repeat a
	// large level many times.
	if d.limitCount += count; d.limitCount > maxLimits {
		d.Problem(n.Used(), "a manifest has at most %d limits; use several namespaces", maxLimits)
		return nil
	}

	d.Entries(n, func(key, n yamlfile.Node) {
		limits = append(limits, d.decodeLimit(key, n))
	})
	return limits
}

// decodeLimit reads a limit in its long or its short form.
func (d *decoder) decodeLimit(key, n yamlfile.Node) limiter.Limit {
	switch {
	case d.short && n.Is(yamlfile.Int, yamlfile.Float):
		return d.decodeRate(key, n)
	case d.short && n.Is(yamlfile.Text):
		return d.decodeShortLimit(key, n)
	}
	return d.decodeLongLimit(key, n)
}

// decodeRate reads a bare number, which is a rate per minute.
func (d *decoder) decodeRate(key, n yamlfile.Node) limiter.Limit {
	before := len(d.Problems)
	limit := limiter.PerMinute(key.Value, d.decodeNumber(n, bucket.MaxTokens))
	d.validateLimit(key, limit, before)
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
func (d *decoder) decodeShortLimit(key, n yamlfile.Node) limiter.Limit {
	// The short form begins with the name, which must not contain a colon.
	before := len(d.Problems)
	if d.validateLimit(key, limiter.PerMinute(key.Value, 1), before); len(d.Problems) > before {
		return limiter.Limit{}
	}

	if rate := strings.TrimSuffix(n.Value, ":shadow"); burstOnly.MatchString(rate) {
		d.Problem(n, "it is %q, but a burst has to follow a period; %s", clip(n.Value), shortForms)
		return limiter.Limit{}
	}

	limit, err := limiter.ParseLimit(key.Value + ":" + n.Value)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		why, _, _ := strings.Cut(bad.Reason, "; a limit is ")
		d.Problem(n, "it is %q, but %s; %s", clip(n.Value), why, shortForms)
	}
	return limit
}

// longLimit holds the values of a mapping, 0 or "" if absent.
type longLimit struct {
	capacity, burst, refill, period int64
	window, zone                    string
	shadow                          bool
	given                           yamlfile.Given
}

// decodeLongLimit reads a mapping. With a burst, the burst is the capacity of
// the limit, and the key capacity is the default of the refill amount. With a
// window it is a quota, which has neither a burst nor a refill.
func (d *decoder) decodeLongLimit(key, n yamlfile.Node) limiter.Limit {
	before := len(d.Problems)
	l := d.readLongLimit(key.Value, n)

	// After other problems, the key may be there and misspelled.
	if !l.given.Has(d.capacity) && len(d.Problems) == before {
		d.Problem(key, "%s is missing: how many tokens can be taken at once", d.capacity)
	}

	limit := limiter.Custom(key.Value, cmp.Or(l.burst, l.capacity), cmp.Or(l.refill, l.capacity),
		time.Duration(cmp.Or(l.period, 60))*time.Second)

	isQuota, hasZone := l.given.Has(d.window), l.given.Has(d.zone)
	switch {
	case hasZone && !isQuota:
		d.Problem(key, "%s needs %s: only a quota has a zone", d.zone, d.window)
	// One of the values cannot be read, which has been reported.
	case len(d.Problems) > before:
	case hasZone && l.zone == "":
		d.Problem(key, "%s is empty; give an IANA name such as Europe/Berlin, or leave it out for UTC", d.zone)
	case isQuota:
		limit = d.quota(key, l).In(l.zone)
	}

	limit.IsShadow = l.shadow
	d.validateLimit(key, limit, before)
	return limit
}

// readLongLimit reads the keys of the mapping of a limit.
func (d *decoder) readLongLimit(name string, n yamlfile.Node) longLimit {
	var l longLimit
	tokens := func(target *int64) func(yamlfile.Node) {
		return func(n yamlfile.Node) { *target = d.decodeTokens(name, n) }
	}
	text := func(target *string) func(yamlfile.Node) {
		return func(n yamlfile.Node) { *target, _ = d.Text(n) }
	}

	fields := yamlfile.Fields{
		d.capacity: tokens(&l.capacity), d.refillAmount: tokens(&l.refill),
		d.refillPeriod: func(n yamlfile.Node) {
			l.period = d.decodeNumber(n, int64(math.MaxInt64/time.Second))
		},
		d.window: text(&l.window), d.zone: text(&l.zone),
		d.shadow: func(n yamlfile.Node) { l.shadow = d.decodeBool(n) },
	}

	if d.burst != "" {
		fields[d.burst] = tokens(&l.burst)
	}

	l.given = d.Fields(n, fields)
	return l
}

// quota returns the quota that a mapping declares.
func (d *decoder) quota(key yamlfile.Node, l longLimit) limiter.Limit {
	for _, name := range []string{d.burst, d.refillAmount, d.refillPeriod} {
		if l.given.Has(name) {
			d.Problem(key,
				"%s and %s exclude each other: a quota gains its whole capacity at the start of each window",
				d.window, name)
		}
	}

	every, err := limiter.ParseCalendar(l.window)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		d.Problem(key, "%s %s, not %q", d.window, bad.Reason, clip(l.window))
	}
	return limiter.Quota(key.Value, l.capacity, every)
}

// validateLimit checks a limit, unless decoding it has already added to the
// problems before.
func (d *decoder) validateLimit(key yamlfile.Node, limit limiter.Limit, before int) {
	if len(d.Problems) > before {
		return
	}
	if err := limit.Validate(); err != nil {
		d.Problem(key, "%v", err)
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
