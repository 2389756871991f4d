package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
)

// Properties of the custom resource that are no part of a manifest.
const (
	propertyToken   = "ServiceToken"
	propertyTimeout = "ServiceTimeout"
	propertyTable   = "TableName"
	propertySpaceID = "NamespaceId"
)

// ResourceType is that of the custom resource whose properties are a manifest.
const ResourceType = "Custom::ZaeLimiterLimits"

// Template is a CloudFormation template of one custom resource, which has the
// limits of the manifest applied by the provisioner of a stack, to the table of
// the same name. It is YAML, or JSON on request. *InvalidError for a name that
// no stack can have, or that CloudFormation takes for a function.
func (m *Manifest) Template(stack string, asJSON bool) ([]byte, error) {
	if !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,127}$`).MatchString(stack) {
		return nil, &limiter.InvalidError{
			Field: "stack", Value: stack, Reason: "must begin with a letter, then letters, digits or hyphens, at most 128 in all",
		}
	}
	if err := m.noFunctions(); err != nil {
		return nil, err
	}
	properties := object{
		{propertyToken, object{{"Fn::ImportValue", stack + "-ProvisionerArn"}}},
		{propertyTable, stack},
	}
	named := *m
	if named.Namespace == "" {
		named.Namespace = defaultNamespace
	}
	template := object{
		{"AWSTemplateFormatVersion", "2010-09-09"},
		{"Description", "Rate limits of namespace " + named.Namespace},
		{"Resources", object{{"TenantLimits", object{
			{"Type", ResourceType},
			{"Properties", append(properties, named.form(inStack())...)},
		}}}},
	}
	if asJSON {
		return template.indented()
	}
	return template.yaml()
}

// noFunctions is an *InvalidError for the first name that makes a mapping a call
// of a function.
func (m *Manifest) noFunctions() error {
	for _, level := range m.sorted().Levels {
		names := []string{level.Scope.Entity, level.Scope.Resource}
		for _, l := range level.Limits {
			names = append(names, l.Name)
		}
		for _, name := range names {
			if name == "Ref" || strings.HasPrefix(name, "Fn::") {
				return &limiter.InvalidError{
					Field: "name", Value: name, Reason: "must be another in a template, where CloudFormation takes it for a function; use `limits apply` for this manifest",
				}
			}
		}
	}
	return nil
}

// FromProperties reads the properties of a custom resource: those that
// Template writes. Numbers may be text, which is all that CloudFormation sends,
// and have an exponent, as in 1.0E7, which is how it writes large ones.
// What is wrong is a *[ParseError].
func FromProperties(properties map[string]any) (*Manifest, error) {
	return decode(nodeOf(properties), inStack())
}

// FromValue reads a manifest from decoded JSON.
func FromValue(value any) (*Manifest, error) { return decode(nodeOf(value), inFile()) }

// nodeOf is decoded JSON as YAML, without places.
func nodeOf(value any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case nil:
		return scalar(tagNull, "null")
	case string:
		return scalar(tagText, v)
	case json.Number:
		return numberNode(v.String())
	case float64:
		text, _ := json.Marshal(v) // no NaN, and no infinity: it was JSON
		return numberNode(string(text))
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalar(tagText, key), nodeOf(v[key]))
		}
		return n
	case []any:
		return &yaml.Node{Kind: yaml.SequenceNode}
	}
	return scalar(tagBool, fmt.Sprint(value))
}

func numberNode(text string) *yaml.Node {
	tag := tagInt
	if strings.ContainsAny(text, ".eE") {
		tag = tagFloat
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}
