package rls

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns a JSON Schema of files of rules, for editors. It accepts the
// files that [ParseRules] accepts, except for rules that a schema cannot express,
// such as a template with a key that match lacks.
func Schema() string { return schema }
