package manifest

import (
	"crypto/rand"
	"slices"
	"strings"
)

// owner identifies the custom resources that manage a namespace: the ID of a
// stack and the logical IDs of its resources, separated by spaces. An empty
// owner means that no stack manages the namespace.
//
// A renamed resource exists twice for a while: CloudFormation creates the new
// one, and then deletes the old one, or on a rollback the new one. Only the
// delete of the last resource deletes the limits.
type owner string

// manualOwner marks limits that a manual apply has taken from a stack. The
// resources of that stack no longer delete them, and any stack may take them
// over.
const manualOwner owner = "by-hand"

// afterManualApply returns the owner after a manual apply.
func (o owner) afterManualApply() owner {
	if o == "" {
		return ""
	}
	return manualOwner
}

// stampSeparator separates a hash from its stamp.
const stampSeparator = "@"

// stampHash appends a random stamp to the hash, so that a change of owner
// changes the stored hash even if the content is the same. Without an owner,
// the hash is plain, as in Python.
func (o owner) stampHash(hash string) string {
	if o == "" {
		return hash
	}
	return hash + stampSeparator + rand.Text()
}

// content returns the hash without its stamp.
func (s state) content() string {
	hash, _, _ := strings.Cut(s.hash, stampSeparator)
	return hash
}

// stack returns the ID of the stack, or "" if there is none.
func (o owner) stack() string {
	stack, _, _ := strings.Cut(string(o), " ")
	if o == manualOwner {
		return ""
	}
	return stack
}

func (o owner) has(stack, resource string) bool {
	return o.stack() == stack && slices.Contains(o.resources(), resource)
}

func (o owner) resources() []string {
	_, names, _ := strings.Cut(string(o), " ")
	return strings.Fields(names)
}

// priorManager is listed among the resources if the namespace was managed
// before it had an owner. The manager may have been a resource of the same
// stack.
const priorManager = "*"

// with returns the owner with one more resource. Another stack replaces the
// stack of o.
func (o owner) with(stack, resource string) owner {
	if stack == "" || o.has(stack, resource) {
		return o
	}
	if o.stack() != stack {
		o = owner(stack)
	}
	return o + owner(" "+resource)
}

// without returns the owner with one resource less. It is empty after the last
// one.
func (o owner) without(stack, resource string) owner {
	if !o.has(stack, resource) {
		return o
	}

	left := slices.DeleteFunc(o.resources(), func(name string) bool { return name == resource })
	if len(left) == 0 {
		return ""
	}
	return owner(stack + " " + strings.Join(left, " "))
}
