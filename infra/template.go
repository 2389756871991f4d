package infra

import _ "embed"

//go:embed template.yaml
var template string

// Template is the CloudFormation template of a stack, as YAML. It is small
// enough to be sent with a request, and complete: a person can deploy it without
// this package.
func Template() []byte { return []byte(template) }
