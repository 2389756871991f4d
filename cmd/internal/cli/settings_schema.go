package cli

import (
	"encoding/json"
	"fmt"

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

// newSettingsSchema returns the command that prints the schema of the settings of
// cmd.
func newSettingsSchema(c *console, cmd *cobra.Command) *cobra.Command {
	path := "zae-limiter " + cmd.Name()
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file of settings",
		Long: fmt.Sprintf(`Print the JSON Schema of the file that "%s --config"
reads, with which editors check and complete it.`, path),
		Example: fmt.Sprintf("  %s schema > %s.schema.json", path, cmd.Name()),
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := settingsSchema(cmd)
			if err != nil {
				return err
			}
			_, err = c.out.Write([]byte(text))
			return err
		},
	}
}

func settingSchema(f *pflag.Flag) map[string]any {
	_, usage := pflag.UnquoteUsage(f)
	schema := map[string]any{"description": usage}
	if isList(f) {
		schema["type"], schema["items"] = "array", map[string]any{"type": "string"}
		return schema
	}

	switch f.Value.Type() {
	case "bool":
		schema["type"] = "boolean"
	case "number":
		schema["type"] = "integer"
	case "duration":
		schema["type"], schema["pattern"] = "string", `^([0-9.]+(ns|us|ms|s|m|h))+$`
	default:
		schema["type"] = "string"
	}
	return schema
}
