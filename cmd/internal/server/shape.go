package server

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// shape is the form of a JSON value in a request. A nil shape allows any fields.
type shape struct {
	names []string          // the fields of an object, in order
	inner map[string]*shape // of fields that are objects or arrays
	each  *shape            // of the elements of an array
}

// shapeOf returns the shape of the JSON of a Go type, nil for one without fields
// of its own.
func shapeOf(t reflect.Type) *shape {
	switch {
	// limiter.Limit decodes itself and has no tags.
	case t == reflect.TypeFor[limiter.Limit]():
		return shapeOf(reflect.TypeFor[jsonview.Limit]())
	case t.Kind() == reflect.Slice:
		return &shape{each: shapeOf(t.Elem())}
	case t.Kind() != reflect.Struct:
		return nil
	}

	s := &shape{inner: map[string]*shape{}, names: []string{}}
	s.addFields(t)
	return s
}

// addFields adds the fields of a struct, and of the structs that it embeds.
func (s *shape) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.addFields(f.Type)
			continue
		}

		s.names = append(s.names, name)
		s.inner[name] = shapeOf(f.Type)
	}
}

// element returns the shape of an array's elements.
func (s *shape) element() *shape {
	if s == nil {
		return nil
	}
	return s.each
}

// field returns the shape of a field, or an error if the object has no such field.
func (s *shape) field(name string) (*shape, error) {
	switch {
	case s == nil || s.names == nil:
		return nil, nil //nolint:nilnil // any shape
	case slices.Contains(s.names, name):
		return s.inner[name], nil
	case len(s.names) == 0:
		return nil, fmt.Errorf("unknown field %q; the object has no fields", clip(name))
	}
	return nil, fmt.Errorf("unknown field %q; the fields are %s", clip(name), strings.Join(s.names, ", "))
}
