package loadtest

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
)

// defaultResource is the key for all resources without limits of their own, as
// manifests spell it.
const defaultResource = "_default_"

// decodeResources reads default limits by resource.
func (d *decoder) decodeResources(n at) (levels []limiter.Config) {
	d.eachEntry(n, func(name string, key, n at) {
		d.checkResource(name, key)
		levels = append(levels, d.decodeLevel(n, limiter.Scope{Resource: name}))
	})
	return levels
}

// decodeEntities reads limits by entity and resource.
func (d *decoder) decodeEntities(n at) (levels []limiter.Config) {
	d.eachEntry(n, func(entity string, key, n at) {
		d.checkEntity(entity, key)
		given := d.decodeFields(n, fields{"resources": func(n at) {
			d.eachEntry(n, func(name string, key, n at) {
				scope := limiter.Scope{Entity: entity, Resource: name}
				if name == defaultResource {
					scope.Resource = ""
				} else {
					d.checkResource(name, key)
				}
				levels = append(levels, d.decodeLevel(n, scope))
			})
		}})

		if len(given) == 0 && n.Kind == yaml.MappingNode {
			d.problem(key,
				"resources is missing; limits of an entity are written as resources: {gpt-4: {limits: {rpm: 100}}}")
		}
	})
	return levels
}

func (d *decoder) checkResource(name string, n at) {
	// No function checks the name of a resource alone, so a request with
	// placeholders does.
	if err := (limiter.Request{
		Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0),
	}).Validate(); err != nil {
		d.problem(n, "%v", err)
	}
}

func (d *decoder) checkEntity(id string, n at) {
	if err := (limiter.Entity{ID: id}).Validate(); err != nil {
		d.problem(n, "%v", err)
	}
}

// decodeLevel reads the limits of one level.
func (d *decoder) decodeLevel(n at, scope limiter.Scope) limiter.Config {
	level := limiter.Config{Scope: scope}
	given := d.decodeFields(n, fields{"limits": func(n at) { level.Limits = d.decodeLimits(n) }})
	if len(given) == 0 && n.Kind == yaml.MappingNode {
		d.problem(n, "limits is missing, such as limits: {rpm: 100}")
	}
	return level
}

// maxLimits is the number of limits of one level.
const maxLimits = 100

func (d *decoder) decodeLimits(n at) (limits []limiter.Limit) {
	if count := len(n.Content) / 2; n.Kind == yaml.MappingNode && (count == 0 || count > maxLimits) {
		d.problem(n, "must be 1 to %d limits, such as {rpm: 100}, not %d", maxLimits, count)
		return nil
	}

	d.eachEntry(n, func(name string, key, n at) {
		if err := limiter.PerMinute(name, 1).Validate(); err != nil {
			d.problem(key, "%v", err)
			return
		}
		limits = append(limits, d.decodeLimit(name, n))
	})
	return limits
}

// burstOnly matches a burst without a period, such as 100:15. YAML 1.1 reads
// that as a number to the base of 60.
var burstOnly = regexp.MustCompile(`^[0-9]+:`)

// decodeLimit reads a limit as the command line spells it after the name.
func (d *decoder) decodeLimit(name string, n at) limiter.Limit {
	const forms = "a limit is RATE, RATE/PERIOD, RATE/PERIOD:BURST or RATE/PERIOD:within[=BURST], such as 100/min:150"
	tag := n.ShortTag()

	switch {
	case n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!str" && tag != "!!float":
		d.problem(n, "%s, not %s", forms, describe(n.Node))
		return limiter.Limit{}
	case burstOnly.MatchString(n.Value):
		d.problem(n, "it is %q, but a burst has to follow a period; %s", clip(n.Value), forms)
		return limiter.Limit{}
	}

	limit, err := limiter.ParseLimit(name + ":" + n.Value)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		// The reason ends with the forms of the command line, where a limit has
		// its name.
		why, _, _ := strings.Cut(bad.Reason, "; a limit is ")
		d.problem(n, "it is %q, but %s; %s", clip(n.Value), why, forms)
	}
	return limit
}
