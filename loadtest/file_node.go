package loadtest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder turns nodes into a plan and collects the problems.
type decoder struct {
	problems []Problem
	entries  int // keys and items read so far; an alias counts each time
}

// maxEntries bounds the keys and items of a file, since aliases of aliases can
// make a small file huge.
const maxEntries = 20_000

// at is a node with its path, such as classes.ChatUser.wait.
type at struct {
	*yaml.Node
	path string
}

// child returns the node of a key below a.
func (a at) child(key string, n *yaml.Node) at {
	if a.path != "" {
		key = a.path + "." + key
	}
	return at{resolveAlias(n), key}
}

// resolveAlias returns n, or the node that n is an alias of.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// fields maps the known keys of a mapping to functions that read their values.
type fields map[string]func(at)

func (d *decoder) problem(n at, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.path != "" {
		text = clip(n.path) + ": " + text
	}
	d.problems = append(d.problems, Problem{n.Line, text})
}

// eachEntry calls read for every key of a mapping with the node of the key and of
// the value. The path of both ends with the key.
func (d *decoder) eachEntry(n at, read func(key string, keyNode, value at)) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, "must be a mapping, not %s", describe(n.Node))
		return
	}

	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content) && d.entries <= maxEntries; i += 2 {
		key := resolveAlias(n.Content[i])
		name := at{key, n.child(strconv.Quote(key.Value), key).path}
		if isPlain(key.Value) {
			name = n.child(key.Value, key)
		}

		line, duplicate := lines[key.Value]
		d.entries++

		switch {
		case d.entries > maxEntries:
			d.problem(n, "a scenario has at most %d keys and items", maxEntries)
		case key.Kind != yaml.ScalarNode:
			d.problem(at{key, n.path}, "a key must be a word, not %s", describe(key))
		case key.ShortTag() == "!!merge":
			d.problem(at{key, n.path}, "merge keys are not supported; refer to the whole section instead, as in *name")
		case duplicate:
			d.problem(name, "duplicate key; the first one is in line %d", line)
		default:
			lines[key.Value] = key.Line
			read(key.Value, name, at{resolveAlias(n.Content[i+1]), name.path})
		}
	}
}

// decodeFields reads a mapping whose keys are known, and returns the keys that
// are present.
func (d *decoder) decodeFields(n at, known fields) map[string]at {
	given := map[string]at{}
	d.eachEntry(n, func(key string, keyNode, value at) {
		read, ok := known[key]
		if ok {
			given[key] = value
			read(value)
			return
		}

		names := slices.Sorted(maps.Keys(known))
		hint := "the keys are " + strings.Join(names, ", ")
		if similar := nearest(key, names); similar != "" {
			hint = fmt.Sprintf("did you mean %s?", similar)
		}
		d.problem(at{keyNode.Node, n.path}, "there is no key %q here; %s", clip(key), hint)
	})
	return given
}

// isPlain reports whether a key needs no quotes in a path.
func isPlain(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// decodeText reads a string.
func (d *decoder) decodeText(n at) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		return n.Value, true
	}

	hint := ""
	// An empty value has no text that quotes could keep.
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		hint = "; put it in quotes"
	}

	d.problem(n, "must be text, not %s%s", describe(n.Node), hint)
	return "", false
}

func (d *decoder) decodeBool(n at) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
		d.problem(n, "must be true or false, not %s", describe(n.Node))
	}
	return n.Value == "true"
}

// plainDigits matches a number as people write it. YAML libraries disagree on
// other spellings, such as 0o10 and 1_000.
var plainDigits = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)

// maxNumber bounds weights and numbers of users and entities.
const maxNumber = 1_000_000

// decodeWhole reads a whole number from least to maxNumber.
func (d *decoder) decodeWhole(n at, least int) int {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !plainDigits.MatchString(n.Value) || err != nil ||
		i < least || i > maxNumber {
		d.problem(n, "must be a whole number from %d to %d in plain digits, not %s", least, maxNumber, describe(n.Node))
		return least
	}
	return i
}

// decodeNumber reads a number above 0 that may have a fraction.
func (d *decoder) decodeNumber(n at, most float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	number := n.Kind == yaml.ScalarNode && slices.Contains([]string{"!!int", "!!float"}, n.ShortTag())
	// YAML libraries disagree on spellings such as 0x10, 1_000 and +1.
	if !number || err != nil || math.IsNaN(f) || f <= 0 || f > most || strings.ContainsAny(n.Value, "_xX+") {
		d.problem(n, "must be a number above 0 and at most %s, such as 0.5, not %s",
			strconv.FormatFloat(most, 'f', -1, 64), describe(n.Node))
		return 1
	}
	return f
}

// plainDuration matches the durations that files may have.
var plainDuration = regexp.MustCompile(`^([0-9]{1,6}(\.[0-9]{1,6})?(us|ms|s|m|h)){1,3}$`)

// parseDuration parses a duration with units, such as 1m30s.
func parseDuration(text string) (time.Duration, bool) {
	span, err := time.ParseDuration(text)
	return span, err == nil && plainDuration.MatchString(text)
}

// decodeDuration reads a duration above 0.
func (d *decoder) decodeDuration(n at) time.Duration {
	span, ok := parseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || !ok || span <= 0 {
		d.problem(n, "must be a duration above 0 such as 90s or 1h30m, not %s", describe(n.Node))
	}
	return span
}

// decodeWait reads a duration or a range of durations. A bare 0 is no wait.
func (d *decoder) decodeWait(n at) Wait {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" && n.Value == "0" {
		return Wait{}
	}

	low, high, isRange := strings.Cut(n.Value, "..")
	if !isRange {
		high = low
	}

	least, lowOK := parseDuration(low)
	most, highOK := parseDuration(high)

	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || !lowOK || !highOK:
		d.problem(n, "must be a duration such as 500ms, or a range such as 500ms..2s, not %s", describe(n.Node))
	case least > most:
		d.problem(n, "the range %s begins above its end; write the shorter duration first", n.Value)
	}

	return Wait{Min: least, Max: most}
}

// describe returns a short description of a node for an error.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return strconv.Quote(clip(n.Value))
	}
	return clip(n.Value)
}

// clip shortens text for a problem.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	// The cut may fall inside a character.
	return strings.ToValidUTF8(text[:most], "") + "..."
}
