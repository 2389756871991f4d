// Package openapi describes the Go types of a JSON API as the schemas of an
// OpenAPI document.
package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Object is a JSON object.
type Object = map[string]any

// Schemas collects the schemas of Go types. A schema has the name of its type, with
// Request in place of Body and without JSON. The tags "json", "doc" and "schema"
// of a struct describe its fields. The zero value is ready to use.
type Schemas struct {
	// All holds the schemas of structs by name, for components/schemas.
	All Object
	// Special returns the schema of a type that is not described by its fields, or
	// nil for every other type. It may be nil.
	Special func(*Schemas, reflect.Type) Object
	// Named holds the schemas to which the tag "schema" of a field refers by name.
	// They say more than the type of the field, such as bounds and patterns.
	Named Object
	// Doc returns the text about a field of a struct; default: the tag "doc".
	Doc func(of reflect.Type, f reflect.StructField) string
}

// Ref returns a reference to a schema of Named, and adds it to All.
func (s *Schemas) Ref(name string) Object {
	if s.All == nil {
		s.All = Object{}
	}
	s.All[name] = s.Named[name]
	return Object{"$ref": "#/components/schemas/" + name}
}

var schemaNames = strings.NewReplacer("Body", "Request", "JSON", "")

// Of returns the schema of a type. For a struct, it adds the schema to All and
// returns a reference.
func (s *Schemas) Of(t reflect.Type) Object {
	if s.Special != nil {
		if special := s.Special(s, t); special != nil {
			return special
		}
	}

	switch t {
	case reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.Number]():
		return Object{"type": "number"}
	}

	switch t.Kind() {
	case reflect.Pointer:
		inner := s.Of(t.Elem())
		// A pointer to a struct is an answer, or a field that is absent if it is nil.
		// Neither is ever null.
		if t.Elem().Kind() == reflect.Struct && t.Elem() != reflect.TypeFor[time.Time]() {
			return inner
		}

		inner["type"] = []any{inner["type"], "null"}
		return inner
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return Object{"type": "integer"}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Slice:
		return Object{"type": "array", "items": s.Of(t.Elem())}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": s.Of(t.Elem())}
	case reflect.Struct:
		return s.reference(t)
	}
	return Object{} // any value
}

func (s *Schemas) reference(t reflect.Type) Object {
	name := schemaNames.Replace(t.Name())
	name = strings.ToUpper(name[:1]) + name[1:]
	if s.All == nil {
		s.All = Object{}
	}
	if s.All[name] == nil {
		properties, required := Object{}, []string{}
		// A struct that contains itself finds this entry, which ends the recursion.
		s.All[name] = Object{}
		s.addFields(t, properties, &required)
		s.All[name] = Object{
			"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		}
	}
	return Object{"$ref": "#/components/schemas/" + name}
}

func (s *Schemas) addFields(t reflect.Type, properties Object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		// encoding/json lifts the fields of an embedded struct into the object.
		if f.Anonymous && name == "" {
			s.addFields(f.Type, properties, required)
			continue
		}

		if name == "-" {
			continue
		}

		schema := s.fieldSchema(f)
		if doc := s.fieldDoc(t, f); doc != "" {
			schema["description"] = doc
		}

		properties[name] = schema
		if options != "omitempty" {
			*required = append(*required, name)
		}
	}
}

// fieldDoc returns the text about a field of a struct.
func (s *Schemas) fieldDoc(of reflect.Type, f reflect.StructField) string {
	if s.Doc != nil {
		return s.Doc(of, f)
	}
	return f.Tag.Get("doc")
}

// fieldSchema returns the schema that the tag of a field names, or the schema of
// its type.
func (s *Schemas) fieldSchema(f reflect.StructField) Object {
	if name := f.Tag.Get("schema"); name != "" {
		return s.Ref(name)
	}
	return s.Of(f.Type)
}

// Content returns the content of a body of a media type.
func Content(media string, schema Object) Object {
	return Object{media: Object{"schema": schema}}
}
