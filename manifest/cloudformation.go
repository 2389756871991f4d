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
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// Properties of the custom resource that are not part of a manifest.
const (
	propertyToken       = "ServiceToken"
	propertyTimeout     = "ServiceTimeout"
	propertyTable       = "TableName"
	propertyNamespaceID = "NamespaceId"
)

// ResourceType is the type of the custom resource whose properties are a
// manifest.
const ResourceType = "Custom::ZaeLimiterLimits"

// Template returns a CloudFormation template with one custom resource. The
// provisioner of the named stack applies the manifest to the table of the same
// name. The template is YAML, or JSON if asJSON is set. Template returns an
// *limiter.InvalidError for an invalid stack name, and for a name in the manifest that
// CloudFormation reads as a function.
func (m *Manifest) Template(stack string, asJSON bool) ([]byte, error) {
	if !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,127}$`).MatchString(stack) {
		return nil, &limiter.InvalidError{
			Field: "stack", Value: stack,
			Reason: "must begin with a letter, then letters, digits or hyphens, at most 128 in all",
		}
	}

	if err := m.checkFunctionNames(); err != nil {
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
			{"Properties", append(properties, named.encode(stackDialect())...)},
		}}}},
	}

	if asJSON {
		return template.indentedJSON()
	}
	return template.yaml()
}

// checkFunctionNames returns an *InvalidError for the first name that is also
// the name of a function of CloudFormation.
func (m *Manifest) checkFunctionNames() error {
	for _, level := range m.sorted().Levels {
		names := []string{level.Scope.Entity, level.Scope.Resource}
		for _, l := range level.Limits {
			names = append(names, l.Name)
		}

		for _, name := range names {
			if name == "Ref" || strings.HasPrefix(name, "Fn::") {
				return &limiter.InvalidError{
					Field: "name", Value: name,
					Reason: "must be another in a template, where CloudFormation takes it for a function; " +
						"use `limits apply` for this manifest",
				}
			}
		}
	}
	return nil
}

// FromProperties reads a manifest from the properties of a custom resource, as
// Template writes them. CloudFormation sends all numbers as text, large ones
// with an exponent such as 1.0E7. Problems are reported in a *[ParseError].
func FromProperties(properties map[string]any) (*Manifest, error) {
	own := maps.Clone(properties)
	for _, key := range []string{propertyToken, propertyTimeout, propertyTable, propertyNamespaceID} {
		delete(own, key)
	}
	return fromValue(own, stackDialect())
}

// FromValue reads a manifest from decoded JSON. Problems are reported in a
// *[ParseError].
func FromValue(value any) (*Manifest, error) { return fromValue(value, fileDialect()) }

func fromValue(value any, in dialect) (*Manifest, error) {
	return newDecoder(in).decode(yamlfile.At(valueNode(value), ""))
}

// valueNode converts decoded JSON to a YAML node without positions.
func valueNode(value any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case nil:
		return scalar(yamlfile.Null, "null")
	case string:
		return scalar(yamlfile.Text, v)
	case json.Number:
		return numberNode(v.String())
	case float64:
		text, _ := json.Marshal(v) // decoded JSON has no NaN and no infinity
		return numberNode(string(text))
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalar(yamlfile.Text, key), valueNode(v[key]))
		}
		return n
	// No value of a manifest is a list, so the items do not matter.
	case []any:
		return &yaml.Node{Kind: yaml.SequenceNode}
	}
	return scalar(yamlfile.Bool, fmt.Sprint(value))
}

func numberNode(text string) *yaml.Node {
	tag := yamlfile.Int
	if strings.ContainsAny(text, ".eE") {
		tag = yamlfile.Float
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}
