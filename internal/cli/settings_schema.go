package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settingsSchema returns the JSON Schema of a command's file of settings.
func settingsSchema(cmd *cobra.Command) (string, error) {
	properties := map[string]any{}
	visit := func(f *pflag.Flag) {
		if isSetting(f) {
			properties[settingKey(f.Name)] = settingSchema(f)
		}
	}
	cmd.InheritedFlags().VisitAll(visit)
	cmd.LocalFlags().VisitAll(visit)
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of " + cmd.CommandPath(),
		"type": "object", "properties": properties, "additionalProperties": false,
	}, "", "  ")
	return string(text) + "\n", err
}

func settingSchema(f *pflag.Flag) map[string]any {
	_, usage := pflag.UnquoteUsage(f)
	schema := map[string]any{"description": usage}
	switch f.Value.Type() {
	case "bool":
		schema["type"] = "boolean"
	case "number":
		schema["type"] = "integer"
	case "duration":
		schema["type"], schema["pattern"] = "string", `^([0-9.]+(ns|us|ms|s|m|h))+$`
	case "stringArray":
		schema["type"], schema["items"] = "array", map[string]any{"type": "string"}
	default:
		schema["type"] = "string"
	}
	return schema
}
