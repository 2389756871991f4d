package loadtest

import "go.yaml.in/yaml/v3"

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
func (d *decoder) decodeClasses(n at) (classes []plannedClass) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.problem(n,
			"must be at least one class, such as {ApiUser: {tasks: {call: {acquire: api, consume: {rpm: 1}}}}}")
	}
	d.eachEntry(n, func(name string, key, n at) {
		d.checkName(name, key)
		classes = append(classes, d.decodeClass(name, n))
	})
	return classes
}

func (d *decoder) decodeClass(name string, n at) plannedClass {
	class := plannedClass{name: name, weight: 1}

	given := d.decodeFields(n, fields{
		"weight":  func(n at) { class.weight = d.decodeWhole(n, 1) },
		"wait":    func(n at) { class.wait = d.decodeWait(n) },
		"entity":  func(n at) { class.entity = d.decodeEntity(n, name) },
		"cascade": func(n at) { class.cascade = d.decodeBool(n) },
		"tasks":   func(n at) { class.tasks = d.decodeTasks(n) },
		"parent": func(n at) {
			if id, ok := d.decodeText(n); ok {
				class.parent = id
				d.checkEntity(id, n)
			}
		},
	})

	_, hasParent := given["parent"]
	cascade, hasCascade := given["cascade"]
	// A parent is there to be charged, so a class with one cascades by default.
	if !hasCascade {
		class.cascade = hasParent
	}

	switch {
	case class.cascade && !hasParent:
		d.problem(cascade, "needs a parent to charge; add parent: org-1 to the class")
	case hasParent && class.entity.count > maxChildren:
		d.problem(given["entity"],
			"has %d entities with a parent, which the setup creates; choose at most %d, or no parent",
			class.entity.count, maxChildren)
	case hasParent && class.parent == class.entity.name:
		d.problem(given["parent"], "the parent is the entity itself; choose another one")
	}

	// The problem of a node that is not a mapping is reported already.
	if _, ok := given["tasks"]; !ok && n.Kind == yaml.MappingNode {
		d.problem(n, "tasks is missing, such as tasks: {call: {acquire: api, consume: {rpm: 1}}}")
	}
	return class
}

// maxChildren is the number of entities with a parent that a class may choose
// from.
const maxChildren = 10_000

// decodeEntity reads the choice of entities of a class.
func (d *decoder) decodeEntity(n at, class string) entityChoice {
	const forms = "must be own, shared, {name: ID}, {count: NUMBER} or {count: NUMBER, zipf: EXPONENT}"
	if n.Kind != yaml.MappingNode {
		switch {
		// The zero choice gives each user an entity of its own.
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "own":
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "shared":
			return entityChoice{name: "shared-" + class}
		default:
			d.problem(n, "%s, not %s", forms, describe(n.Node))
		}
		return entityChoice{}
	}

	var choice entityChoice
	given := d.decodeFields(n, fields{
		"count": func(n at) { choice.count = d.decodeWhole(n, 1) },
		"zipf":  func(n at) { choice.zipf = d.decodeNumber(n, 10) },
		"name": func(n at) {
			if id, ok := d.decodeText(n); ok {
				choice.name = id
				d.checkEntity(id, n)
			}
		},
	})

	_, named := given["name"]
	_, counted := given["count"]
	// A name stands alone, and an exponent belongs to a count.
	if named == counted || named && len(given) > 1 {
		d.problem(n, "%s", forms)
	}
	return choice
}
