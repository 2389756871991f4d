package loadtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// plan is a scenario as a file describes it.
type plan struct {
	name, description string
	levels            []limiter.Config
	classes           []plannedClass
	shapes            []Shape
	foreign           bool // there is no key classes
}

// Names in files. The names of classes and shapes are names of Python classes in
// a locustfile, too.
var (
	scenarioName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	wordName     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
)

// reservedWords lists the words that match wordName, but that Python does not
// accept as the name of a class.
var reservedWords = []string{
	"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
	"elif", "else",
	"except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
	"pass", "raise",
	"return", "try", "while", "with", "yield",
}

// decodePlan reads a file. Its scenario is called fallback if it has no key name.
func (d *decoder) decodePlan(top yamlfile.Node, fallback string) plan {
	p := plan{name: fallback, foreign: true}
	if top.Kind != yaml.MappingNode {
		d.Problem(top, "a scenario is a mapping with the keys classes, resources and others, not %s",
			d.Describe(top))
		return p
	}

	given := d.Fields(top, yamlfile.Fields{
		"name":        func(n yamlfile.Node) { p.name, _ = d.Text(n) },
		"description": func(n yamlfile.Node) { p.description = d.decodeDescription(n) },
		"system":      func(n yamlfile.Node) { p.levels = append(p.levels, d.decodeLevel(n, limiter.Scope{})) },
		"resources":   func(n yamlfile.Node) { p.levels = append(p.levels, d.decodeResources(n)...) },
		"entities":    func(n yamlfile.Node) { p.levels = append(p.levels, d.decodeEntities(n)...) },
		"classes":     func(n yamlfile.Node) { p.classes = d.decodeClasses(n) },
		"shapes":      func(n yamlfile.Node) { p.shapes = d.decodeShapes(n) },
	})

	if p.foreign = !given.Has("classes"); p.foreign {
		d.Problem(top,
			"the key classes is missing; it describes the users, such as classes: {ApiUser: {tasks: {call: "+
				"{acquire: api, consume: {rpm: 1}}}}}")
	}

	if n, ok := given["name"]; !ok && !scenarioName.MatchString(p.name) {
		d.Problem(top,
			"the scenario has no name, and its file is called %q; add the key name with letters, digits, _ and -",
			clip(p.name))
	} else if ok && n.ShortTag() == yamlfile.Text && !scenarioName.MatchString(p.name) {
		d.Problem(n, "must begin with a letter and have letters, digits, _ and - only, at most 64, not %q",
			clip(p.name))
	}

	// A level that could not be read would turn every amount of its limits into
	// a problem of its own.
	if len(d.Problems) == 0 {
		d.checkAmounts(&p)
	}
	return p
}

// decodeDescription reads a text of one line.
func (d *decoder) decodeDescription(n yamlfile.Node) string {
	text, ok := d.Text(n)
	if ok && (utf8.RuneCountInString(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })) {
		d.Problem(n, "must be one line of at most 200 characters")
	}
	return text
}

// checkName reports a name that is no word, or a word of Python.
func (d *decoder) checkName(n yamlfile.Node) {
	name := n.Value
	switch {
	case !wordName.MatchString(name):
		d.Problem(n, "a name must begin with a letter and have letters, digits and _ only, at most 64")
	case slices.Contains(reservedWords, name):
		d.Problem(n, "%s is a word of Python, which cannot name a class of a locustfile; choose another name", name)
	}
}

// decodeShapes reads shapes by name.
func (d *decoder) decodeShapes(n yamlfile.Node) (shapes []Shape) {
	d.Entries(n, func(key, n yamlfile.Node) {
		d.checkName(key)
		shapes = append(shapes, Shape{Name: key.Value, Stages: d.decodeStages(n)})
	})
	return shapes
}

func (d *decoder) decodeStages(n yamlfile.Node) (stages []Stage) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.Problem(n, "must be a list of stages, such as [{duration: 5m, users: 100, spawn_rate: 2}], not %s",
			d.emptyOr(n))
		return nil
	}

	for i, item := range n.Content {
		if d.count(n) {
			return stages
		}

		n := yamlfile.At(item, fmt.Sprintf("%s.%d", n.Path, i))
		stage := Stage{SpawnRate: DefaultSpawnRate}
		given := d.Fields(n, yamlfile.Fields{
			"duration":   func(n yamlfile.Node) { stage.Duration = d.decodeDuration(n) },
			"users":      func(n yamlfile.Node) { stage.Users = d.decodeWhole(n, 0) },
			"spawn_rate": func(n yamlfile.Node) { stage.SpawnRate = d.decodeNumber(n, maxNumber) },
		})

		for _, key := range []string{"duration", "users"} {
			if !given.Has(key) && n.Kind == yaml.MappingNode {
				d.Problem(n, "%s is missing; a stage has duration, users and spawn_rate", key)
			}
		}

		stages = append(stages, stage)
	}
	return stages
}

// emptyOr describes a node for an error, or says that it is empty.
func (d *decoder) emptyOr(n yamlfile.Node) string {
	if n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		return "an empty one"
	}
	return d.Describe(n)
}

// limitNames returns the limits that a charge of a resource may meet at any
// level.
func (p *plan) limitNames(resource string) []string {
	names := map[string]bool{}
	for _, level := range p.levels {
		if level.Scope.Resource != "" && level.Scope.Resource != resource {
			continue
		}

		for _, limit := range level.Limits {
			names[limit.Name] = true
		}
	}

	return slices.Sorted(maps.Keys(names))
}
