package kit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// Settings gives every flag of a command two more sources: an environment
// variable, and a key of one YAML file. Flags come first, then the environment,
// then the file.
type Settings struct {
	Prefix string // of the variables, such as ZAEL_SERVE_
	file   string // the flag --config
}

// ConfigFlag names the flag of the file.
const ConfigFlag = "config"

// StoreVariables are the variables of flags that other commands have too.
var StoreVariables = map[string][]string{
	"store": {EnvStore, EnvStack}, "name": {EnvStore, EnvStack}, "namespace": {envNamespace},
	"region": {"AWS_REGION", "AWS_DEFAULT_REGION"}, "endpoint-url": {EnvTableEndpoint, envEndpoint},
}

// AddFile adds the flag --config.
func (s *Settings) AddFile(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.file, ConfigFlag, "", "YAML `file` with these flags as keys, with _ in place of -")
}

// Apply sets the flags that the command line does not set.
func (s *Settings) Apply(cmd *cobra.Command) error {
	path := cmp.Or(s.file, os.Getenv(s.Variable(ConfigFlag)))
	file, err := readSettings(path, cmd)
	if err != nil {
		return err
	}

	given := givenFlags(cmd)
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		// VisitAll goes on after an error.
		if failed != nil || slices.Contains(given, f.Name) || !IsSetting(f) {
			return
		}
		if err := s.set(f, file); err != nil {
			failed = err
		}
	})

	return failed
}

// givenFlags returns the flags of the command line. A store is given by one of two
// flags, so either counts as both.
func givenFlags(cmd *cobra.Command) []string {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
	if slices.Contains(given, "store") || slices.Contains(given, "name") {
		given = append(given, "store", "name")
	}
	return given
}

// IsSetting reports whether the environment and the file can set a flag.
func IsSetting(f *pflag.Flag) bool { return f.Name != ConfigFlag && f.Name != "help" }

func (s *Settings) set(f *pflag.Flag, file map[string]setting) error {
	variables, shared := StoreVariables[f.Name]
	if !shared {
		variables = []string{s.Variable(f.Name)}
	}
	for _, name := range variables {
		text := os.Getenv(name)
		switch {
		// An empty variable counts as one that is not set.
		case text == "":
			continue
		// The command reads the variables of a store itself.
		case shared:
			return nil
		}
		return setAll(name, f, variableTexts(f, text))
	}

	if value, ok := file[SettingKey(f.Name)]; ok {
		return setAll(value.where, f, value.texts)
	}
	return nil
}

// setAll sets a flag to its values. Only a list can have more than one.
func setAll(source string, f *pflag.Flag, texts []string) error {
	if len(texts) > 1 && !isList(f) {
		return Usagef("%s: --%s takes one value", source, f.Name)
	}

	for _, text := range texts {
		if err := f.Value.Set(text); err != nil {
			return settingError(source, f, text, err)
		}
	}
	return nil
}

// isList reports whether a flag can be given several times.
func isList(f *pflag.Flag) bool {
	switch f.Value.(type) {
	case *LimitFlags, *Pairs:
		return true
	}
	return f.Value.Type() == "stringArray"
}

// variableTexts splits the value of a variable. Commas separate the values of a
// list.
func variableTexts(f *pflag.Flag, text string) []string {
	if isList(f) {
		return strings.Split(text, ",")
	}
	return []string{text}
}

// settingError names the source of a wrong value.
func settingError(source string, f *pflag.Flag, text string, err error) error {
	if bad, ok := errors.AsType[*FlagValueError](err); ok {
		return Usagef("%s: %s", source, bad.Message)
	}

	// The error of package strconv names a function, and no valid values.
	if f.Value.Type() == "bool" {
		return Usagef("%s: invalid --%s %q: must be true or false", source, f.Name, Clip(text))
	}
	return Usagef("%s: invalid --%s %q: %v", source, f.Name, Clip(text), err)
}

// Variable returns the environment variable of a flag that no other command has.
func (s *Settings) Variable(flag string) string {
	return s.Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// SettingKey returns the key of a flag in the file.
func SettingKey(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// setting is a value of the file and its place.
type setting struct {
	where string
	texts []string // several for a list
}

// readSettings reads the file, or nothing if path is "".
func readSettings(path string, cmd *cobra.Command) (map[string]setting, error) {
	if path == "" {
		return nil, nil
	}

	root, err := readDocument(path)
	if err != nil {
		return nil, err
	}
	// The file may be empty, or hold nothing but comments.
	if len(root.Content) == 0 {
		return nil, nil
	}

	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, Usagef("--config %s: must hold keys and values, such as listen: 127.0.0.1:0", path)
	}

	// The content of a mapping is its keys and values in turn.
	file := map[string]setting{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := fmt.Sprintf("%s, line %d", path, key.Line)

		// The form of the flag, lease-ttl, would be a second name of the key
		// lease_ttl.
		if f := cmd.Flags().Lookup(strings.ReplaceAll(key.Value, "_", "-")); f == nil || !IsSetting(f) ||
			SettingKey(f.Name) != key.Value {
			return nil, Usagef("%s: unknown key %q; the keys are the flags of %s with _ in place of -", where,
				Clip(key.Value), cmd.CommandPath())
		}

		if _, twice := file[key.Value]; twice {
			return nil, Usagef("%s: %s is given twice", where, key.Value)
		}

		texts, err := settingTexts(value)
		if err != nil {
			return nil, Usagef("%s: %s: %v", where, key.Value, err)
		}
		file[key.Value] = setting{where, texts}
	}
	return file, nil
}

// readDocument reads the one YAML document of a file.
func readDocument(path string) (root yaml.Node, err error) {
	data, err := ReadFile(path, nil)
	if err != nil {
		return root, FileError("--config", err)
	}

	switch next, err := yamlfile.Decode(data, &root); {
	case err != nil:
		return root, Usagef("--config %s: %v", path, err)
	case next != nil:
		return root, Usagef("--config %s: must hold one YAML document", path)
	}
	return root, nil
}

// settingTexts returns the value of a key as texts, one for each element of a
// list.
func settingTexts(value *yaml.Node) ([]string, error) {
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		nodes = value.Content
	}

	var texts []string
	for _, n := range nodes {
		// An empty value is a mistake, as it is for a flag.
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			return nil, errors.New("must be a value, or a list of values")
		}
		texts = append(texts, n.Value)
	}
	return texts, nil
}

// maxFile is the most that a file of settings, rules or keys may hold, so that
// /dev/zero is an error.
const maxFile = 4 << 20

// ReadFile returns the content of a file, or of in if the path is "-". If in is nil,
// "-" is a file of that name.
func ReadFile(path string, in io.Reader) (content []byte, err error) {
	if path == "-" && in != nil {
		return readAtMost(path, in)
	}

	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	// Nothing was written, so an error of Close means nothing.
	defer func() { _ = file.Close() }()
	return readAtMost(path, file)
}

// FileName returns the name of a file in messages: "-" is standard input.
func FileName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

func readAtMost(path string, from io.Reader) ([]byte, error) {
	// One byte more than the maximum shows that the file goes on.
	content, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(content) > maxFile {
		return nil, fmt.Errorf("%s: must hold at most %d bytes", path, maxFile)
	}
	return content, err
}

// settingsSchema returns the JSON Schema of a command's file of settings.
func settingsSchema(cmd *cobra.Command) (string, error) {
	properties := map[string]any{}
	visit := func(f *pflag.Flag) {
		if IsSetting(f) {
			properties[SettingKey(f.Name)] = settingSchema(f)
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

// NewSettingsSchema returns the command that prints the schema of the settings of
// cmd.
func NewSettingsSchema(c *Console, cmd *cobra.Command) *cobra.Command {
	path := "zae-limiter " + cmd.Name()
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file of settings",
		Long: fmt.Sprintf(`Print the JSON Schema of the file that "%s --config"
reads, with which editors check and complete it.`, path),
		Example: fmt.Sprintf("  %s schema > %s.schema.json", path, cmd.Name()),
		Args:    NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := settingsSchema(cmd)
			if err != nil {
				return err
			}
			_, err = c.Out.Write([]byte(text))
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

// FileError returns the usage error of a flag that names a file.
func FileError(flag string, err error) error {
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return Usagef("%s %s: %v", flag, bad.Path, bad.Err)
	}
	return Usagef("%v", err)
}
