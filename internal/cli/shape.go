package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// field is one of the JSON objects that a command prints.
type field struct{ name, kind, doc string }

// shapeOf is what a struct looks like as JSON: its tags "json" and "doc" say
// it, so that what is printed and what is documented are the same.
func shapeOf(of reflect.Type) []field {
	var fields []field
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fields = append(fields, shapeOf(f.Type)...)
		case name != "-":
			fields = append(fields, field{name, kindOf(f.Type), f.Tag.Get("doc")})
		}
	}
	return fields
}

// kindOf names a type as people do who read JSON.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[*string]() {
		return "text or null"
	}
	if t == reflect.TypeFor[*time.Time]() {
		return "time or null"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "time"
	}
	if t == reflect.TypeFor[json.Number]() {
		return "number"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "array of " + kindOf(t.Elem()) + "s"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "number"
}

// annotationOutput holds, for docs, what a reading command prints.
const annotationOutput = "output"

// What --json prints.
const (
	anObject = "an object"
	anArray  = "an array of objects"
)

// addJSON gives a reading command its flag, and describes what it prints: lines
// of these columns, or a name and a value if there are none, and T as JSON.
func addJSON[T any](cmd *cobra.Command, target *bool, shape string, columns []column) {
	lines := "a name and a value"
	if columns != nil {
		lines = strings.Join(titles(columns), ", ")
	}
	var names []string
	for _, f := range shapeOf(reflect.TypeFor[T]()) {
		names = append(names, f.name)
	}
	cmd.Flags().BoolVar(target, "json", false, "print JSON, as -o json")
	addForm(cmd, target)
	about := fmt.Sprintf("Piped, a line has, separated by tabs: %s.\nWith --json it is %s with %s.", lines, shape, strings.Join(names, ", "))
	cmd.Long += "\n\n" + tty.Wrap(about, helpWidth)
	cmd.Annotations = map[string]string{}
	addShape[T](cmd, "With `--json` it is "+shape)
}

// addShape documents the objects that are printed as JSON, or parts of them.
func addShape[T any](cmd *cobra.Command, what string) {
	table := what + ":\n\n| field | type | |\n|---|---|---|\n"
	for _, f := range shapeOf(reflect.TypeFor[T]()) {
		table += fmt.Sprintf("| %#q | %s | %s |\n", f.name, f.kind, f.doc)
	}
	if before := cmd.Annotations[annotationOutput]; before != "" {
		table = before + "\n" + table
	}
	cmd.Annotations[annotationOutput] = table
}

// helpWidth is how wide the text of a help is, and screenWidth all of it.
const helpWidth, screenWidth = 78, 80
