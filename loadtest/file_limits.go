package loadtest

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// defaultResource is the key for all resources without limits of their own, as
// manifests spell it.
const defaultResource = "_default_"

// decodeResources reads default limits by resource.
func (d *decoder) decodeResources(n yamlfile.Node) (levels []limiter.Config) {
	d.Entries(n, func(key, n yamlfile.Node) {
		d.checkResource(key.Value, key)
		levels = append(levels, d.decodeLevel(n, limiter.Scope{Resource: key.Value}))
	})
	return levels
}

// decodeEntities reads limits by entity and resource.
func (d *decoder) decodeEntities(n yamlfile.Node) (levels []limiter.Config) {
	d.Entries(n, func(key, n yamlfile.Node) {
		entity := key.Value
		d.checkEntity(entity, key)
		given := d.Fields(n, yamlfile.Fields{"resources": func(n yamlfile.Node) {
			d.Entries(n, func(key, n yamlfile.Node) {
				scope := limiter.Scope{Entity: entity, Resource: key.Value}
				if scope.Resource == defaultResource {
					scope.Resource = ""
				} else {
					d.checkResource(key.Value, key)
				}
				levels = append(levels, d.decodeLevel(n, scope))
			})
		}})

		if len(given) == 0 && n.Kind == yaml.MappingNode {
			d.Problem(key,
				"resources is missing; limits of an entity are written as resources: {gpt-4: {limits: {rpm: 100}}}")
		}
	})
	return levels
}

func (d *decoder) checkResource(name string, n yamlfile.Node) {
	// No function checks the name of a resource alone, so a request with
	// placeholders does.
	if err := (limiter.Request{
		Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0),
	}).Validate(); err != nil {
		d.Problem(n, "%v", err)
	}
}

func (d *decoder) checkEntity(id string, n yamlfile.Node) {
	if err := (limiter.Entity{ID: id}).Validate(); err != nil {
		d.Problem(n, "%v", err)
	}
}

// decodeLevel reads the limits of one level.
func (d *decoder) decodeLevel(n yamlfile.Node, scope limiter.Scope) limiter.Config {
	level := limiter.Config{Scope: scope}
	given := d.Fields(n, yamlfile.Fields{"limits": func(n yamlfile.Node) { level.Limits = d.decodeLimits(n) }})
	if len(given) == 0 && n.Kind == yaml.MappingNode {
		d.Problem(n, "limits is missing, such as limits: {rpm: 100}")
	}
	return level
}

// maxLimits is the number of limits of one level.
const maxLimits = 100

func (d *decoder) decodeLimits(n yamlfile.Node) (limits []limiter.Limit) {
	if count := len(n.Content) / 2; n.Kind == yaml.MappingNode && (count == 0 || count > maxLimits) {
		d.Problem(n, "must be 1 to %d limits, such as {rpm: 100}, not %d", maxLimits, count)
		return nil
	}

	d.Entries(n, func(key, n yamlfile.Node) {
		if err := limiter.PerMinute(key.Value, 1).Validate(); err != nil {
			d.Problem(key, "%v", err)
			return
		}
		limits = append(limits, d.decodeLimit(key.Value, n))
	})
	return limits
}

// burstOnly matches a burst without a period, such as 100:15. YAML 1.1 reads
// that as a number to the base of 60.
var burstOnly = regexp.MustCompile(`^[0-9]+:`)

// decodeLimit reads a limit as the command line spells it after the name.
func (d *decoder) decodeLimit(name string, n yamlfile.Node) limiter.Limit {
	const forms = "a limit is RATE, RATE/PERIOD, RATE/PERIOD:BURST or RATE/PERIOD:within[=BURST], such as 100/min:150"

	switch {
	case !n.Is(yamlfile.Int, yamlfile.Float, yamlfile.Text):
		d.Problem(n, "%s, not %s", forms, d.Describe(n))
		return limiter.Limit{}
	case burstOnly.MatchString(n.Value):
		d.Problem(n, "it is %q, but a burst has to follow a period; %s", clip(n.Value), forms)
		return limiter.Limit{}
	}

	limit, err := limiter.ParseLimit(name + ":" + n.Value)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		// The reason ends with the forms of the command line, where a limit has
		// its name.
		why, _, _ := strings.Cut(bad.Reason, "; a limit is ")
		d.Problem(n, "it is %q, but %s; %s", clip(n.Value), why, forms)
	}
	return limit
}
