package manifest

import (
	"crypto/rand"
	"slices"
	"strings"
)

// owner is whose custom resources rule what is managed: the ID of a stack and
// the logical IDs of resources in it, with spaces between them; "" is nobody's.
//
// A resource that is renamed is two for a while: CloudFormation makes the new
// one first, and then deletes the old one, or the new one if something went
// wrong. Only the last of them to go takes the limits with it.
type owner string

// byHand is what somebody has taken from a stack: its resources delete nothing
// any more, and any stack may take it again.
const byHand owner = "by-hand"

// taken is the owner after an apply by hand.
func (o owner) taken() owner {
	if o == "" {
		return ""
	}
	return byHand
}

// stamp parts a hash from what makes it new.
const stamp = "@"

// stamped is a hash that nobody has seen: whoever read the record before an owner
// changed must notice, also where the content is the same. What nobody owns has
// the plain hash, as in Python.
func (o owner) stamped(hash string) string {
	if o == "" {
		return hash
	}
	return hash + stamp + rand.Text()
}

// content is the hash without its stamp.
func (s state) content() string {
	hash, _, _ := strings.Cut(s.hash, stamp)
	return hash
}

// stack is the one it belongs to, "" for none.
func (o owner) stack() string {
	stack, _, _ := strings.Cut(string(o), " ")
	if o == byHand {
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

// before stands, among the resources, for whatever managed the namespace when
// nobody owned it. It may be a resource of the same stack.
const before = "*"

// with has one more resource. Another stack takes the place of this one.
func (o owner) with(stack, resource string) owner {
	if stack == "" || o.has(stack, resource) {
		return o
	}
	if o.stack() != stack {
		o = owner(stack)
	}
	return o + owner(" "+resource)
}

// without has one resource less, and is nobody's without any.
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
