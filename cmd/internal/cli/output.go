package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// format is an output format.
type format string

const (
	formatJSON  format = "json"
	formatTable format = "table"
	formatTSV   format = "tsv" // tab-separated fields without a heading
)

const outputFlag = "output"

// addFormat adds the flag --output to a command, unless the command has one for
// a file.
func addFormat(cmd *cobra.Command, asJSON *bool) {
	if cmd.Flags().Lookup(outputFlag) != nil {
		return
	}

	words := []format{formatJSON, formatTable, formatTSV}
	// applyFormat finds the target in the flag, so it needs no variable.
	addFlagP(cmd, new(format), outputFlag, "o", "format", "",
		"output format: json, table or tsv (default: table on a terminal, else tsv)",
		func(text string) (format, error) {
			f, err := oneOf(words...)(text)
			if f == formatJSON {
				*asJSON = true
			}
			return f, err
		})
	_ = cmd.RegisterFlagCompletionFunc(outputFlag, completeWords(words...))
}

// applyFormat sets up the console for the format that --output gives.
func (c *console) applyFormat(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup(outputFlag)
	if flag == nil || !flag.Changed {
		return nil
	}

	// A command that writes a file has a flag of the same name with another
	// type.
	v, ok := flag.Value.(*parsedFlag[format])
	if !ok {
		return nil
	}

	if *v.target != formatJSON && cmd.Flags().Changed("json") {
		return usagef("--json and --output %s exclude each other; give one of them", *v.target)
	}

	// A table that was asked for is printed to a file, too.
	c.terminal = *v.target == formatTable
	return nil
}

// field describes a field of the JSON objects that a command prints.
type field struct{ name, kind, doc string }

// jsonFields returns the fields that a struct has as JSON, with the texts of
// [jsonview.Doc].
func jsonFields(of reflect.Type) []field {
	var fields []field
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		// Package json puts the fields of an embedded struct into the outer
		// object.
		case f.Anonymous && name == "":
			fields = append(fields, jsonFields(f.Type)...)
		case name != "-":
			fields = append(fields, field{name, jsonType(f.Type), jsonview.Doc(of, f)})
		}
	}
	return fields
}

// jsonType returns the name of a type in the documentation.
func jsonType(t reflect.Type) string {
	// The kinds of these types, such as struct, do not show what they are in
	// JSON.
	if t == reflect.TypeFor[*string]() {
		return "string or null"
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
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array of " + jsonType(t.Elem()) + "s"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "number"
}

// annotationOutput is the annotation with the documentation of a command's
// output.
const annotationOutput = "output"

// Kinds of JSON output, in words.
const (
	anObject = "an object"
	anArray  = "an array of objects"
)

// addJSON adds the output flags to a command and documents what it prints: lines
// with these columns, or with a name and a value if columns is nil, and T as JSON.
func addJSON[T any](cmd *cobra.Command, target *bool, shape string, columns []column) {
	lines := "a name and a value"
	if columns != nil {
		lines = strings.Join(titles(columns), ", ")
	}

	var names []string
	for _, f := range jsonFields(reflect.TypeFor[T]()) {
		names = append(names, f.name)
	}

	cmd.Flags().BoolVar(target, "json", false, "print JSON, same as -o json")
	addFormat(cmd, target)

	about := fmt.Sprintf("Tab-separated fields when piped: %s.\nOutput with --json: %s with %s.", lines, shape,
		strings.Join(names, ", "))
	cmd.Long += "\n\n" + tty.Wrap(about, helpWidth)

	cmd.Annotations = map[string]string{}
	documentFields[T](cmd, "`--json` prints "+shape)
}

// documentFields adds a table of the fields of T to a command's documentation.
func documentFields[T any](cmd *cobra.Command, what string) {
	table := what + ":\n\n| field | type | |\n|---|---|---|\n"
	for _, f := range jsonFields(reflect.TypeFor[T]()) {
		table += fmt.Sprintf("| %#q | %s | %s |\n", f.name, f.kind, f.doc)
	}

	// A command may print several kinds of objects.
	if before := cmd.Annotations[annotationOutput]; before != "" {
		table = before + "\n" + table
	}

	cmd.Annotations[annotationOutput] = table
}

// Widths of the help: its text, and its lists of flags.
const helpWidth, screenWidth = 78, 80
