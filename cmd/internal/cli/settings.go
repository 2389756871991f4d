package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// settings gives every flag of a command two more sources: an environment
// variable, and a key of one YAML file. Flags come first, then the environment,
// then the file.
type settings struct {
	prefix string // of the variables, such as ZAEL_SERVE_
	file   string // the flag --config
}

// configFlag names the flag of the file.
const configFlag = "config"

// storeVariables are the variables of flags that other commands have too.
var storeVariables = map[string][]string{
	"store": {envStore, envStack}, "name": {envStore, envStack}, "namespace": {envNamespace},
	"region": {"AWS_REGION", "AWS_DEFAULT_REGION"}, "endpoint-url": {envTableEndpoint, envEndpoint},
}

// addFile adds the flag --config.
func (s *settings) addFile(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.file, configFlag, "", "YAML `file` with these flags as keys, with _ in place of -")
}

// apply sets the flags that the command line does not set.
func (s *settings) apply(cmd *cobra.Command) error {
	path := cmp.Or(s.file, os.Getenv(s.variable(configFlag)))
	file, err := readSettings(path, cmd)
	if err != nil {
		return err
	}

	given := givenFlags(cmd)
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		// VisitAll goes on after an error.
		if failed != nil || slices.Contains(given, f.Name) || !isSetting(f) {
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

// isSetting reports whether the environment and the file can set a flag.
func isSetting(f *pflag.Flag) bool { return f.Name != configFlag && f.Name != "help" }

func (s *settings) set(f *pflag.Flag, file map[string]setting) error {
	variables, shared := storeVariables[f.Name]
	if !shared {
		variables = []string{s.variable(f.Name)}
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

	if value, ok := file[settingKey(f.Name)]; ok {
		return setAll(value.where, f, value.texts)
	}
	return nil
}

// setAll sets a flag to its values. Only a list can have more than one.
func setAll(source string, f *pflag.Flag, texts []string) error {
	if len(texts) > 1 && !isList(f) {
		return usagef("%s: --%s takes one value", source, f.Name)
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
	case *limitFlags, *pairs:
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
	if bad, ok := errors.AsType[*flagValueError](err); ok {
		return usagef("%s: %s", source, bad.message)
	}

	// The error of package strconv names a function, and no valid values.
	if f.Value.Type() == "bool" {
		return usagef("%s: invalid --%s %q: must be true or false", source, f.Name, clip(text))
	}
	return usagef("%s: invalid --%s %q: %v", source, f.Name, clip(text), err)
}

func (s *settings) variable(flag string) string {
	return s.prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settingKey returns the key of a flag in the file.
func settingKey(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

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
		return nil, usagef("--config %s: must hold keys and values, such as listen: 127.0.0.1:0", path)
	}

	// The content of a mapping is its keys and values in turn.
	file := map[string]setting{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := fmt.Sprintf("%s, line %d", path, key.Line)

		// The form of the flag, lease-ttl, would be a second name of the key
		// lease_ttl.
		if f := cmd.Flags().Lookup(strings.ReplaceAll(key.Value, "_", "-")); f == nil || !isSetting(f) ||
			settingKey(f.Name) != key.Value {
			return nil, usagef("%s: unknown key %q; the keys are the flags of %s with _ in place of -", where,
				clip(key.Value), cmd.CommandPath())
		}

		if _, twice := file[key.Value]; twice {
			return nil, usagef("%s: %s is given twice", where, key.Value)
		}

		texts, err := settingTexts(value)
		if err != nil {
			return nil, usagef("%s: %s: %v", where, key.Value, err)
		}
		file[key.Value] = setting{where, texts}
	}
	return file, nil
}

// readDocument reads the one YAML document of a file.
func readDocument(path string) (root yaml.Node, err error) {
	data, err := readFile(path, nil)
	if err != nil {
		return root, fileError("--config", err)
	}

	switch next, err := yamlfile.Decode(data, &root); {
	case err != nil:
		return root, usagef("--config %s: %v", path, err)
	case next != nil:
		return root, usagef("--config %s: must hold one YAML document", path)
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
