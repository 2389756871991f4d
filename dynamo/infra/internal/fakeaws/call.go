package fakeaws

import (
	"strings"
)

// Call holds the parts of a request to AWS that permissions depend on. Its text looks
// like
//
//	GetItem NS/ENTITY#user
//	UpdateItem{PK,SK,b_*,rf} NS/ENTITY#user
//	Query@GSI2 NS/RESOURCE#gpt-4
//	TransactWriteItems PutItem{PK,SK,b_*}=NS/ENTITY#user UpdateItem{PK,SK,limits}=NS/SYSTEM#
//	s3:GetObject@AuditArchiveBucket.Arn/audit/file
//
// It has the action, the attributes that a write names, the index or stream if
// there is one, and the partition keys, in which NS stands for the namespace.
// For a transaction it has the action on each item. Actions of services other
// than DynamoDB have the prefix of their service, and a resource.
type Call struct {
	Action, On string
	Attributes []string
	Keys       []string
	Items      []Item
}

// Item is an item of a transaction.
type Item struct {
	Action, Key string
	Attributes  []string
}

// String returns the text of the call.
func (c Call) String() string {
	words := []string{formatAction(c.Action, c.Attributes)}
	if c.On != "" {
		words[0] += "@" + c.On
	}
	words = append(words, c.Keys...)
	for _, i := range c.Items {
		words = append(words, formatAction(i.Action, i.Attributes)+"="+i.Key)
	}
	return strings.Join(words, " ")
}

func formatAction(action string, attributes []string) string {
	if len(attributes) == 0 {
		return action
	}
	return action + "{" + strings.Join(attributes, ",") + "}"
}

// ParseCall parses the text of a call. A write without attributes names the
// partition key; with {} it names none.
func ParseCall(line string) (c Call) {
	words := strings.Fields(line)
	c.Action, c.On, _ = strings.Cut(words[0], "@")
	c.Action, c.Attributes = parseAction(c.Action)

	for _, word := range words[1:] {
		if action, key, isItem := strings.Cut(word, "="); isItem {
			action, attributes := parseAction(action)
			c.Items = append(c.Items, Item{action, key, attributes})
		} else {
			c.Keys = append(c.Keys, word)
		}
	}
	return c
}

func parseAction(word string) (action string, attributes []string) {
	action, list, found := strings.Cut(word, "{")
	switch {
	case found:
		return action, strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '}' })
	case action == "PutItem" || action == "UpdateItem":
		return action, []string{"PK"}
	}
	return action, nil
}

// TableARN and StreamARN are the resources of calls to the table of a stack.
const (
	TableARN  = "RateLimitsTable.Arn"
	StreamARN = "RateLimitsTable.StreamArn"
)

// resource returns the resource that the call needs a permission for.
func (c Call) resource() string {
	switch {
	case c.On == "":
		return TableARN
	case c.On == "stream":
		return StreamARN
	case !c.isDynamoDB():
		return c.On
	}
	return TableARN + "/index/" + c.On
}

// iamAction returns the action with the prefix of its service.
func (c Call) iamAction() string {
	if c.isDynamoDB() {
		return "dynamodb:" + c.Action
	}
	return c.Action
}

func (c Call) isDynamoDB() bool { return !strings.Contains(c.Action, ":") }

// Accesses returns the accesses that IAM has to allow for the call. Each item of
// a transaction is an access of its own; with together, each has the keys and
// attributes of all items. AWS does not document which of both it does, so a
// policy has to allow both.
func (c Call) Accesses(tag string, together bool) (all []Access) {
	if len(c.Items) == 0 {
		return []Access{{c.iamAction(), c.resource(), c.Keys, c.Attributes, tag}}
	}

	var keys, attributes []string
	for _, i := range c.Items {
		keys, attributes = append(keys, i.Key), append(attributes, i.Attributes...)
	}
	for _, i := range c.Items {
		a := Access{"dynamodb:" + i.Action, c.resource(), []string{i.Key}, i.Attributes, tag}
		if together {
			a.Keys, a.Attributes = keys, attributes
		}
		all = append(all, a)
	}
	return all
}

// Namespace stands for the namespace ID in the keys of calls, and otherNamespace
// for another one.
const Namespace, otherNamespace = "NS", "OTHER"

// InOtherNamespace returns the call with the keys of another namespace.
func (c Call) InOtherNamespace() Call {
	other := Call{Action: c.Action, On: c.On, Attributes: c.Attributes}
	// Only keys name a namespace, so the rest of the call stays.
	for _, key := range c.Keys {
		other.Keys = append(other.Keys, replaceNamespace(key, Namespace, otherNamespace))
	}

	for _, i := range c.Items {
		other.Items = append(other.Items, Item{
			i.Action, replaceNamespace(i.Key, Namespace, otherNamespace), i.Attributes,
		})
	}
	return other
}

// replaceNamespace replaces the namespace of a partition key if it is from.
func replaceNamespace(key, from, to string) string {
	if key == from {
		return to
	}

	// A key of NS is NS alone, or begins with NS and a slash: NS2/X belongs to
	// another namespace.
	if rest, ok := strings.CutPrefix(key, from+"/"); ok {
		return to + "/" + rest
	}
	return key
}
