package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
)

// What ends a manifest in which references to references grow without end.
const (
	maxLevels   = 100_000
	maxLimits   = 500_000 // in all
	maxAtALevel = 1_000
	maxProblems = 1_000 // that are told
)

// decoder turns nodes into a manifest and collects what is wrong.
type decoder struct {
	dialect
	out        Manifest
	limitCount int // of all levels
	problems   []Problem
}

// full tells that a manifest has come to its end.
func (d *decoder) full() bool {
	return len(d.out.Levels) > maxLevels || d.limitCount > maxLimits || len(d.problems) >= maxProblems
}

func decode(root *yaml.Node, words dialect) (*Manifest, error) {
	d := &decoder{dialect: words}
	fields := map[string]func(*yaml.Node, string){
		d.namespace: d.decodeNamespace, d.system: d.decodeSystem, d.resources: d.decodeResources, d.entities: d.decodeEntities,
	}
	for _, word := range d.beside {
		fields[word] = func(*yaml.Node, string) {}
	}
	if root.Kind != yaml.MappingNode {
		d.problem(root, "", "a manifest is a mapping with the keys %s", d.known(fields))
	} else {
		d.fields(root, "", fields)
	}
	if len(d.problems) > 0 {
		return nil, &ParseError{inOrder(d.problems)}
	}
	return d.out.sorted(), nil
}

func (d *decoder) problem(at *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{at.Line, at.Column, path, fmt.Sprintf(format, args...)})
}

func (d *decoder) decodeNamespace(n *yaml.Node, path string) {
	name, ok := d.text(n, path)
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
	d.fields(n, path, map[string]func(*yaml.Node, string){
		d.onUnavailable: func(n *yaml.Node, path string) {
			mode, ok := d.text(n, path)
			if level.OnUnavailable = limiter.OnUnavailable(mode); ok && !validMode(level.OnUnavailable) {
				d.problem(n, path, "it is %q, but it has to be %s", mode, modes)
			}
		},
		d.limits: func(n *yaml.Node, path string) { level.Limits = d.decodeLimits(n, path) },
	})
	d.add(n, path, level)
}

func (d *decoder) decodeResources(n *yaml.Node, path string) {
	d.entries(n, path, func(key, n *yaml.Node, path string) {
		if err := validResource(key.Value); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.decodeLevel(n, path, limiter.Scope{Resource: key.Value})
	})
}

func (d *decoder) decodeEntities(n *yaml.Node, path string) {
	d.entries(n, path, func(key, n *yaml.Node, path string) {
		entity := key.Value
		if err := (limiter.Entity{ID: entity}).Validate(); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.fields(n, path, map[string]func(*yaml.Node, string){
			d.resources: func(n *yaml.Node, path string) { d.decodeEntity(n, path, entity) },
		})
	})
}

func (d *decoder) decodeEntity(n *yaml.Node, path, entity string) {
	d.entries(n, path, func(key, n *yaml.Node, path string) {
		s := limiter.Scope{Entity: entity, Resource: key.Value}
		if s.Resource == defaultResource {
			s.Resource = ""
		} else if err := validResource(s.Resource); err != nil {
			d.problem(key, path, "%v", err)
		}
		d.decodeLevel(n, path, s)
	})
}

func (d *decoder) decodeLevel(n *yaml.Node, path string, s limiter.Scope) {
	level := limiter.Config{Scope: s}
	d.fields(n, path, map[string]func(*yaml.Node, string){
		d.limits: func(n *yaml.Node, path string) { level.Limits = d.decodeLimits(n, path) },
	})
	d.add(n, path, level)
}

func (d *decoder) add(n *yaml.Node, path string, level limiter.Config) {
	if d.out.Levels = append(d.out.Levels, level); len(d.out.Levels) == maxLevels+1 {
		d.problem(n, path, "a manifest has at most %d levels; use several namespaces", maxLevels)
	}
}

// decodeLimits reads the limits of a level, unless there are too many.
func (d *decoder) decodeLimits(n *yaml.Node, path string) (limits []limiter.Limit) {
	count := len(resolved(n).Content) / 2
	if count > maxAtALevel {
		d.problem(n, path, "a level has at most %d limits, not %d", maxAtALevel, count)
		return nil
	}
	if d.limitCount += count; d.limitCount > maxLimits {
		d.problem(n, path, "a manifest has at most %d limits; use several namespaces", maxLimits)
		return nil
	}
	d.entries(n, path, func(key, n *yaml.Node, path string) {
		limits = append(limits, d.decodeLimit(key, n, path))
	})
	return limits
}
