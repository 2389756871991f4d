package loadtest

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
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
func (d *decoder) decodeTasks(n at) (tasks []plannedTask) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.problem(n, "must be at least one task, such as {call: {acquire: api, consume: {rpm: 1}}}")
	}
	d.eachEntry(n, func(name string, key, n at) {
		d.checkName(name, key)
		tasks = append(tasks, d.decodeTask(name, n))
	})
	return tasks
}

// Calls of a task.
const (
	callAcquire   = "acquire"
	callAvailable = "available"
	callTimeUntil = "time_until_available"
)

func (d *decoder) decodeTask(name string, n at) plannedTask {
	task := plannedTask{name: name, weight: 1}

	call := func(what string) func(at) {
		return func(n at) { task.call, task.resources = cmp.Or(task.call, what), d.decodeChoice(n) }
	}

	before := len(d.problems)
	given := d.decodeFields(n, fields{
		"weight":      func(n at) { task.weight = d.decodeWhole(n, 1) },
		callAcquire:   call(callAcquire),
		callAvailable: call(callAvailable),
		callTimeUntil: call(callTimeUntil),
		"consume":     func(n at) { task.consume = d.decodeAmounts(n) },
		"used":        func(n at) { task.used = d.decodeAmounts(n) },
		"work":        func(n at) { task.work = d.decodeWait(n) },
	})

	// A key that could not be read would only cause further problems.
	if len(d.problems) == before {
		d.checkTask(n, task, given)
	}
	return task
}

// checkTask reports keys of a task that do not belong together.
func (d *decoder) checkTask(n at, task plannedTask, given map[string]at) {
	calls := 0
	for _, call := range []string{callAcquire, callAvailable, callTimeUntil} {
		if _, ok := given[call]; ok {
			calls++
		}
	}

	if calls != 1 {
		d.problem(n, "a task has one of acquire, available and time_until_available, such as acquire: api")
		return
	}

	allowed := map[string][]string{
		callAcquire: {"consume", "used", "work"}, callTimeUntil: {"consume"},
	}[task.call]

	for _, key := range []string{"consume", "used", "work"} {
		at, ok := given[key]
		switch {
		case ok && !slices.Contains(allowed, key):
			d.problem(at, "%s has no %s; remove it", task.call, key)
		case !ok && key == "consume" && slices.Contains(allowed, key):
			d.problem(n, "consume is missing, such as consume: {rpm: 1}")
		}
	}
}

// decodeChoice reads a resource, a list of resources, or resources with weights.
func (d *decoder) decodeChoice(n at) (choice []weighted) {
	const forms = "must be a resource, a list of them such as [gpt-4, gpt-4o], or weights such as {gpt-4: 3, gpt-4o: 1}"

	add := func(name string, n at, weight int) {
		d.checkResource(name, n)
		choice = append(choice, weighted{name, weight, n.Line})
	}

	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		add(n.Value, n, 1)
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		d.decodeList(n, add)
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		d.eachEntry(n, func(name string, key, n at) { add(name, key, d.decodeWhole(n, 1)) })
	default:
		d.problem(n, "%s, not %s", forms, emptyOr(n.Node))
	}

	return choice
}

// decodeList reads a list of different resources.
func (d *decoder) decodeList(n at, add func(name string, n at, weight int)) {
	lines := map[string]int{}
	for i, item := range n.Content {
		item := n.child(fmt.Sprint(i), item)
		name, ok := d.decodeText(item)
		line, duplicate := lines[name]

		if d.entries++; d.entries > maxEntries {
			d.problem(n, "a scenario has at most %d keys and items", maxEntries)
			return
		}

		switch {
		// decodeText has reported the item.
		case !ok:
		case duplicate:
			d.problem(item, "%s is listed twice, first in line %d; give it a weight instead, such as {%s: 2}",
				clip(name), line, clip(name))
		default:
			lines[name] = item.Line
			add(name, item, 1)
		}
	}
}
