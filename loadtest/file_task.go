package loadtest

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// plannedTask is a task as a file describes it.
type plannedTask struct {
	name          string
	weight        int
	call          string // acquire, available or time_until_available
	resources     []weighted
	consume, used []plannedAmount
	work          Wait // between an acquire and its commit
}

// weighted is a resource with the weight of its choice.
type weighted struct {
	resource string
	weight   int
	line     int
}

// decodeTasks reads tasks by name.
func (d *decoder) decodeTasks(n yamlfile.Node) (tasks []plannedTask) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.Problem(n, "must be at least one task, such as {call: {acquire: api, consume: {rpm: 1}}}")
	}
	d.Entries(n, func(key, n yamlfile.Node) {
		d.checkName(key)
		tasks = append(tasks, d.decodeTask(key.Value, n))
	})
	return tasks
}

// Calls of a task.
const (
	callAcquire   = "acquire"
	callAvailable = "available"
	callTimeUntil = "time_until_available"
)

func (d *decoder) decodeTask(name string, n yamlfile.Node) plannedTask {
	task := plannedTask{name: name, weight: 1}

	call := func(what string) func(yamlfile.Node) {
		return func(n yamlfile.Node) { task.call, task.resources = cmp.Or(task.call, what), d.decodeChoice(n) }
	}

	before := len(d.Problems)
	given := d.Fields(n, yamlfile.Fields{
		"weight":      func(n yamlfile.Node) { task.weight = d.decodeWhole(n, 1) },
		callAcquire:   call(callAcquire),
		callAvailable: call(callAvailable),
		callTimeUntil: call(callTimeUntil),
		"consume":     func(n yamlfile.Node) { task.consume = d.decodeAmounts(n) },
		"used":        func(n yamlfile.Node) { task.used = d.decodeAmounts(n) },
		"work":        func(n yamlfile.Node) { task.work = d.decodeWait(n) },
	})

	// A key that could not be read would only cause further problems.
	if len(d.Problems) == before {
		d.checkTask(n, task, given)
	}
	return task
}

// checkTask reports keys of a task that do not belong together.
func (d *decoder) checkTask(n yamlfile.Node, task plannedTask, given yamlfile.Given) {
	calls := 0
	for _, call := range []string{callAcquire, callAvailable, callTimeUntil} {
		if given.Has(call) {
			calls++
		}
	}

	if calls != 1 {
		d.Problem(n, "a task has one of acquire, available and time_until_available, such as acquire: api")
		return
	}

	allowed := map[string][]string{
		callAcquire: {"consume", "used", "work"}, callTimeUntil: {"consume"},
	}[task.call]

	for _, key := range []string{"consume", "used", "work"} {
		at, ok := given[key]
		switch {
		case ok && !slices.Contains(allowed, key):
			d.Problem(at, "%s has no %s; remove it", task.call, key)
		case !ok && key == "consume" && slices.Contains(allowed, key):
			d.Problem(n, "consume is missing, such as consume: {rpm: 1}")
		}
	}
}

// decodeChoice reads a resource, a list of resources, or resources with weights.
func (d *decoder) decodeChoice(n yamlfile.Node) (choice []weighted) {
	const forms = "must be a resource, a list of them such as [gpt-4, gpt-4o], or weights such as {gpt-4: 3, gpt-4o: 1}"

	add := func(name string, n yamlfile.Node, weight int) {
		d.checkResource(name, n)
		choice = append(choice, weighted{name, weight, n.Line})
	}

	switch {
	case n.Is(yamlfile.Text):
		add(n.Value, n, 1)
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		d.decodeList(n, add)
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		d.Entries(n, func(key, n yamlfile.Node) { add(key.Value, key, d.decodeWhole(n, 1)) })
	default:
		d.Problem(n, "%s, not %s", forms, d.emptyOr(n))
	}

	return choice
}

// decodeList reads a list of different resources.
func (d *decoder) decodeList(n yamlfile.Node, add func(name string, n yamlfile.Node, weight int)) {
	lines := map[string]int{}
	for i, item := range n.Content {
		item := yamlfile.At(item, fmt.Sprintf("%s.%d", n.Path, i))
		name, ok := d.Text(item)
		line, duplicate := lines[name]

		if d.count(n) {
			return
		}

		switch {
		// decodeText has reported the item.
		case !ok:
		case duplicate:
			d.Problem(item, "%s is listed twice, first in line %d; give it a weight instead, such as {%s: 2}",
				clip(name), line, clip(name))
		default:
			lines[name] = item.Line
			add(name, item, 1)
		}
	}
}
