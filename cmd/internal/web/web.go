// Package web is the HTTP side that the programs share: routes with typed
// bodies, strict checks of bodies and queries, bounded places, and answers.
//
// A program embeds [Call] in a type of its own, states what it asks of requests
// as [Rules], and declares a route for each call:
//
//	type call struct {
//		*web.Call
//		by user
//	}
//
//	var rules = &web.Rules{}
//
//	type greetBody struct {
//		Name string `json:"name"`
//	}
//
//	func greet(c *call, body greetBody) (greeting, error) {
//		return greeting{Text: "Hello " + body.Name, From: c.by.name}, nil
//	}
//
//	func list(c *call) ([]greeting, error) {
//		return find(c.Query.Get("after"))
//	}
//
//	var routes = []web.Route[*call]{
//		web.Post(rules, "/greet", "Greet a person", greet),
//		web.Get(rules, "/greetings", "List greetings", []web.Parameter{{Name: "after"}}, list),
//	}
//
// The handler of a route finds its caller, makes a call, and then uses
// [Route.CheckQuery], [Rules.ReadBody] and [Route.Run], in the order that the
// program needs: a server that bounds what strangers can hold reads no body
// before it knows its caller. It sends the result with [WriteJSON].
//
// A request that is not as its route describes it has a [Fault], which is a
// problem document and an error.
package web

import (
	"net/http"
	"net/url"
	"reflect"
)

// Rules are what a program asks of all requests. The zero value refuses every
// [Fault] in its own words.
type Rules struct {
	// Refuse returns the answer to a fault, in the words of the program, or nil to
	// let it pass. A body that cannot be read or decoded never passes. Default: the
	// fault itself.
	Refuse func(*Fault) error
	// WholeNumbers takes 2.0 and 2e3 for whole numbers in a body, as JSON Schema
	// does.
	WholeNumbers bool
	// MaxParameter bounds the bytes of a parameter; 0 for no bound.
	MaxParameter int
	// NoHead refuses HEAD. Otherwise GET answers it too.
	NoHead bool
}

// refuse returns the answer to a fault, or nil if it may pass.
func (r *Rules) refuse(f *Fault) error {
	if r.Refuse == nil {
		return f
	}
	return r.Refuse(f)
}

// mustRefuse returns the answer to a fault that leaves nothing to go on with.
func (r *Rules) mustRefuse(f *Fault) error {
	if err := r.refuse(f); err != nil {
		return err
	}
	return f
}

// Call is a request under way.
type Call struct {
	Request *http.Request
	// Header is the header of the answer.
	Header http.Header
	// Query has the parameters, once [Route.CheckQuery] has found them right.
	Query url.Values
	// Body is the whole body, from [Rules.ReadBody].
	Body []byte
}

func (c *Call) base() *Call { return c }

// Caller is a type that embeds a *Call.
type Caller interface{ base() *Call }

// Route is a call that clients can make with a request of type C. It is also the
// source of documents about the API.
type Route[C Caller] struct {
	Method, Path, Summary string
	Parameters            []Parameter
	// Request and Answer are the types of the JSON; nil for none.
	Request, Answer reflect.Type

	rules *Rules
	run   func(C) (any, error)
}

// Get returns a route that reads.
func Get[A any, C Caller](
	rules *Rules, path, summary string, parameters []Parameter, do func(C) (A, error),
) Route[C] {
	return Route[C]{
		Method: http.MethodGet, Path: path, Summary: summary, Parameters: parameters,
		Answer: reflect.TypeFor[A](), rules: rules,
		run: func(c C) (any, error) { return do(c) },
	}
}

// Post returns a route whose calls carry a body of type B.
func Post[B, A any, C Caller](rules *Rules, path, summary string, do func(C, B) (A, error)) Route[C] {
	allowed := shapeOf(reflect.TypeFor[B]())
	return Route[C]{
		Method: http.MethodPost, Path: path, Summary: summary,
		Request: reflect.TypeFor[B](), Answer: reflect.TypeFor[A](), rules: rules,
		run: func(c C) (any, error) {
			var body B
			if err := rules.decode(c.base().Body, &body, allowed); err != nil {
				return nil, err
			}
			return do(c, body)
		},
	}
}

// CheckQuery checks the parameters of a call against those of the route.
func (rt *Route[C]) CheckQuery(c C) (err error) {
	base := c.base()
	base.Query, err = rt.rules.ParseQuery(base.Request, rt.Parameters)
	return err
}

// Run decodes the body of a call, if the route has one, and makes the call.
func (rt *Route[C]) Run(c C) (any, error) { return rt.run(c) }
