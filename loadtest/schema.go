package loadtest

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns a JSON Schema of scenario files, for editors. It accepts the
// files that [Parse] accepts, except for rules that a schema cannot express,
// such as limits that a task consumes and no level defines.
func Schema() string { return schema }
