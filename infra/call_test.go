package infra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// call is a request to AWS as far as permissions go, as in testdata/calls.txt:
//
//	GetItem NS/ENTITY#user
//	UpdateItem{PK,SK,b_*,rf} NS/ENTITY#user
//	Query@GSI2 NS/RESOURCE#gpt-4
//	TransactWriteItems PutItem{PK,SK,b_*}=NS/ENTITY#user UpdateItem{PK,SK,limits}=NS/SYSTEM#
//	s3:GetObject@AuditArchiveBucket.Arn/audit/file
//
// The action, the attributes that it names if it writes an item, an index or the
// stream if it is on one, and the partition keys, in which NS is the namespace;
// those of a transaction with the action on each item. Actions of other services
// than DynamoDB are with their name, on a resource.
type call struct {
	action, on string
	attributes []string
	keys       []string
	items      []item
}

type item struct {
	action, key string
	attributes  []string
}

func (c call) String() string {
	words := []string{written(c.action, c.attributes)}
	if c.on != "" {
		words[0] += "@" + c.on
	}
	words = append(words, c.keys...)
	for _, i := range c.items {
		words = append(words, written(i.action, i.attributes)+"="+i.key)
	}
	return strings.Join(words, " ")
}

// written is an action with the attributes it names.
func written(action string, attributes []string) string {
	if len(attributes) == 0 {
		return action
	}
	return action + "{" + strings.Join(attributes, ",") + "}"
}

// parseCall is String backwards. A write that shows no attributes names the key;
// {} is one that names none.
func parseCall(line string) (c call) {
	words := strings.Fields(line)
	c.action, c.on, _ = strings.Cut(words[0], "@")
	c.action, c.attributes = parseWritten(c.action)
	for _, word := range words[1:] {
		if action, key, isItem := strings.Cut(word, "="); isItem {
			action, attributes := parseWritten(action)
			c.items = append(c.items, item{action, key, attributes})
		} else {
			c.keys = append(c.keys, word)
		}
	}
	return c
}

// parseWritten is written backwards.
func parseWritten(word string) (action string, attributes []string) {
	action, list, shown := strings.Cut(word, "{")
	switch {
	case shown:
		return action, strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '}' })
	case action == "PutItem" || action == "UpdateItem":
		return action, []string{"PK"}
	}
	return action, nil
}

const table = "RateLimitsTable.Arn"

// resource is what the call needs a permission for.
func (c call) resource() string {
	switch {
	case c.on == "":
		return table
	case c.on == "stream":
		return stream
	case !c.isOfTable():
		return c.on
	}
	return table + "/index/" + c.on
}

// right is the action with the name of its service.
func (c call) right() string {
	if c.isOfTable() {
		return "dynamodb:" + c.action
	}
	return c.action
}

func (c call) isOfTable() bool { return !strings.Contains(c.action, ":") }

// requests are what IAM is asked. Each item of a transaction is a request of its
// own; with together, all of them show the keys and attributes of all: which of
// both the service does is not documented, so what is to be allowed has to be
// either way.
func (c call) requests(tag string, together bool) (all []request) {
	if len(c.items) == 0 {
		return []request{{c.right(), c.resource(), c.keys, c.attributes, tag}}
	}
	var keys, attributes []string
	for _, i := range c.items {
		keys, attributes = append(keys, i.key), append(attributes, i.attributes...)
	}
	for _, i := range c.items {
		r := request{"dynamodb:" + i.action, c.resource(), []string{i.key}, i.attributes, tag}
		if together {
			r.keys, r.attributes = keys, attributes
		}
		all = append(all, r)
	}
	return all
}

// elsewhere is the call in another namespace.
func (c call) elsewhere() call {
	other := call{action: c.action, on: c.on, attributes: c.attributes}
	for _, key := range c.keys {
		other.keys = append(other.keys, moved(key))
	}
	for _, i := range c.items {
		other.items = append(other.items, item{i.action, moved(i.key), i.attributes})
	}
	return other
}

// own is the ID of a namespace in calls, another that of one beside it.
const own, another = "NS", "OTHER"

func moved(key string) string {
	if key == own {
		return another
	}
	if rest, mine := strings.CutPrefix(key, own+"/"); mine {
		return another + "/" + rest
	}
	return key
}

// calls are recorded calls by operation.
type calls map[string][]call

// String is the text of testdata/calls.txt: operations in the order of names,
// each followed by its calls. A call that was made twice is there once.
func (c calls) String() string {
	var b strings.Builder
	for _, o := range operations() {
		fmt.Fprintln(&b, o.name)
		var lines []string
		for _, call := range c[o.name] {
			lines = append(lines, "\t"+call.String())
		}
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

func parseCalls(tb testing.TB, recorded string) calls {
	tb.Helper()
	all := calls{}
	name := ""
	for line := range strings.Lines(recorded) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			all[name] = append(all[name], parseCall(rest))
		} else {
			name, all[line] = line, nil
		}
	}
	return all
}
