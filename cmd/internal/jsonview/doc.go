package jsonview

import (
	"cmp"
	"reflect"
	"strings"
)

// documented is a struct with texts about fields that are too long for tags.
type documented interface {
	// FieldDocs returns the texts by the names of the fields in JSON.
	FieldDocs() map[string]string
}

// Doc returns the text about a field of a struct: its tag "doc", or else the text
// that the method FieldDocs of the struct returns for it. The text is empty if there
// is none.
func Doc(of reflect.Type, f reflect.StructField) string {
	var long string
	if d, ok := reflect.TypeAssert[documented](reflect.Zero(of)); ok {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		long = d.FieldDocs()[name]
	}
	return cmp.Or(f.Tag.Get("doc"), long)
}
