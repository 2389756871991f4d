package manifest

import _ "embed" // of the schema

//go:embed schema.json
var schema string

// Schema is a JSON Schema of manifests, for editors. It accepts what [Parse]
// does, but for what no schema can say, such as that a key is there twice.
func Schema() string { return schema }
