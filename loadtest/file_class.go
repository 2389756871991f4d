package loadtest

import (
	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// plannedClass is a class of users as a file describes it.
type plannedClass struct {
	name    string
	weight  int
	wait    Wait
	entity  entityChoice
	parent  string
	cascade bool
	tasks   []plannedTask
}

// entityChoice decides which entity a user charges.
type entityChoice struct {
	name  string  // the entity of all users, if not ""
	count int     // the number of entities that each task picks from, if not 0
	zipf  float64 // exponent of the choice; 0 is uniform
}

// decodeClasses reads classes by name.
func (d *decoder) decodeClasses(n yamlfile.Node) (classes []plannedClass) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.Problem(n,
			"must be at least one class, such as {ApiUser: {tasks: {call: {acquire: api, consume: {rpm: 1}}}}}")
	}
	d.Entries(n, func(key, n yamlfile.Node) {
		d.checkName(key)
		classes = append(classes, d.decodeClass(key.Value, n))
	})
	return classes
}

func (d *decoder) decodeClass(name string, n yamlfile.Node) plannedClass {
	class := plannedClass{name: name, weight: 1}

	given := d.Fields(n, yamlfile.Fields{
		"weight":  func(n yamlfile.Node) { class.weight = d.decodeWhole(n, 1) },
		"wait":    func(n yamlfile.Node) { class.wait = d.decodeWait(n) },
		"entity":  func(n yamlfile.Node) { class.entity = d.decodeEntity(n, name) },
		"cascade": func(n yamlfile.Node) { class.cascade = d.Bool(n) },
		"tasks":   func(n yamlfile.Node) { class.tasks = d.decodeTasks(n) },
		"parent": func(n yamlfile.Node) {
			if id, ok := d.Text(n); ok {
				class.parent = id
				d.checkEntity(id, n)
			}
		},
	})

	hasParent := given.Has("parent")
	cascade, hasCascade := given["cascade"]
	// A parent is there to be charged, so a class with one cascades by default.
	if !hasCascade {
		class.cascade = hasParent
	}

	switch {
	case class.cascade && !hasParent:
		d.Problem(cascade, "needs a parent to charge; add parent: org-1 to the class")
	case hasParent && class.entity.count > maxChildren:
		d.Problem(given["entity"],
			"has %d entities with a parent, which the setup creates; choose at most %d, or no parent",
			class.entity.count, maxChildren)
	case hasParent && class.parent == class.entity.name:
		d.Problem(given["parent"], "the parent is the entity itself; choose another one")
	}

	// The problem of a node that is not a mapping is reported already.
	if !given.Has("tasks") && n.Kind == yaml.MappingNode {
		d.Problem(n, "tasks is missing, such as tasks: {call: {acquire: api, consume: {rpm: 1}}}")
	}
	return class
}

// maxChildren is the number of entities with a parent that a class may choose
// from.
const maxChildren = 10_000

// decodeEntity reads the choice of entities of a class.
func (d *decoder) decodeEntity(n yamlfile.Node, class string) entityChoice {
	const forms = "must be own, shared, {name: ID}, {count: NUMBER} or {count: NUMBER, zipf: EXPONENT}"
	if n.Kind != yaml.MappingNode {
		switch {
		// The zero choice gives each user an entity of its own.
		case n.Is(yamlfile.Text) && n.Value == "own":
		case n.Is(yamlfile.Text) && n.Value == "shared":
			return entityChoice{name: "shared-" + class}
		default:
			d.Problem(n, "%s, not %s", forms, d.Describe(n))
		}
		return entityChoice{}
	}

	var choice entityChoice
	given := d.Fields(n, yamlfile.Fields{
		"count": func(n yamlfile.Node) { choice.count = d.decodeWhole(n, 1) },
		"zipf":  func(n yamlfile.Node) { choice.zipf = d.decodeNumber(n, 10) },
		"name": func(n yamlfile.Node) {
			if id, ok := d.Text(n); ok {
				choice.name = id
				d.checkEntity(id, n)
			}
		},
	})

	named, counted := given.Has("name"), given.Has("count")
	// A name stands alone, and an exponent belongs to a count.
	if named == counted || named && len(given) > 1 {
		d.Problem(n, "%s", forms)
	}
	return choice
}
