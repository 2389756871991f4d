package kit

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

// Format is an output format.
type Format string

// The output formats.
const (
	FormatJSON  Format = "json"
	FormatTable Format = "table"
	FormatTSV   Format = "tsv" // tab-separated fields without a heading
)

// OutputFlag names the flag of the format.
const OutputFlag = "output"

// addFormat adds the flag --output to a command, unless the command has one for
// a file.
func addFormat(cmd *cobra.Command, asJSON *bool) {
	if cmd.Flags().Lookup(OutputFlag) != nil {
		return
	}

	words := []Format{FormatJSON, FormatTable, FormatTSV}
	// ApplyFormat finds the target in the flag, so it needs no variable.
	AddFlagP(cmd, new(Format), OutputFlag, "o", "format", "",
		"output format: json, table or tsv (default: table on a terminal, else tsv)",
		func(text string) (Format, error) {
			f, err := OneOf(words...)(text)
			if f == FormatJSON {
				*asJSON = true
			}
			return f, err
		})
	_ = cmd.RegisterFlagCompletionFunc(OutputFlag, CompleteWords(words...))
}

// ApplyFormat sets up the console for the format that --output gives.
func (c *Console) ApplyFormat(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup(OutputFlag)
	if flag == nil || !flag.Changed {
		return nil
	}

	// A command that writes a file has a flag of the same name with another
	// type.
	v, ok := flag.Value.(*parsedFlag[Format])
	if !ok {
		return nil
	}

	if *v.target != FormatJSON && cmd.Flags().Changed("json") {
		return Usagef("--json and --output %s exclude each other; give one of them", *v.target)
	}

	// A table that was asked for is printed to a file, too.
	c.Terminal = *v.target == FormatTable
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

// AnnotationOutput is the annotation with the documentation of a command's
// output.
const AnnotationOutput = "output"

// Kinds of JSON output, in words.
const (
	AnObject = "an object"
	AnArray  = "an array of objects"
)

// AddJSON adds the output flags to a command and documents what it prints: lines
// with these columns, or with a name and a value if columns is nil, and T as JSON.
func AddJSON[T any](cmd *cobra.Command, target *bool, shape string, columns []Column) {
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
	DocumentFields[T](cmd, "`--json` prints "+shape)
}

// DocumentFields adds a table of the fields of T to a command's documentation.
func DocumentFields[T any](cmd *cobra.Command, what string) {
	table := what + ":\n\n| field | type | |\n|---|---|---|\n"
	for _, f := range jsonFields(reflect.TypeFor[T]()) {
		table += fmt.Sprintf("| %#q | %s | %s |\n", f.name, f.kind, f.doc)
	}

	// A command may print several kinds of objects.
	if before := cmd.Annotations[AnnotationOutput]; before != "" {
		table = before + "\n" + table
	}

	cmd.Annotations[AnnotationOutput] = table
}

// Widths of the help.
const (
	helpWidth   = 78 // of its text
	ScreenWidth = 80 // of its lists of flags
)
