package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode stores the first document of data in v, which is a *yaml.Node or a pointer
// to a struct. A key without a field is an error. An empty file changes nothing. If
// something follows the document, next is the second document, or an empty node
// beside the error of one that cannot be read.
func Decode(data []byte, v any) (next *yaml.Node, err error) {
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	if err = in.Decode(v); err == nil {
		next = new(yaml.Node)
		err = in.Decode(next)
	}

	// The end of the file is where a second document would begin, or the first.
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return next, err
}

// Tags of values, for [Node.Is].
const (
	Null  = "!!null"
	Text  = "!!str"
	Int   = "!!int"
	Float = "!!float"
	Bool  = "!!bool"
)

// Node is a value of a file. Behind an alias it is the value that the alias
// refers to, with the position of that value.
type Node struct {
	*yaml.Node
	Path string // of the keys that lead to it
	used *yaml.Node
}

// At returns the value of n with its path.
func At(n *yaml.Node, path string) Node {
	value := n
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	return Node{value, path, n}
}

// Used returns a node with the position where the file uses the value: behind an
// alias, the position of the alias. The result serves for nothing else.
func (n Node) Used() Node { return Node{n.used, n.Path, n.used} }

// Is reports whether n is a scalar with one of the tags.
func (n Node) Is(tags ...string) bool {
	return n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag())
}

var plainDigits = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)

// IsWhole reports whether n is a whole number of at most 12 digits as people write
// it. YAML libraries disagree on other spellings, such as 0o10 and 1_000.
func (n Node) IsWhole() bool { return n.Is(Int) && plainDigits.MatchString(n.Value) }

// Entry is a key of a mapping with its value. The path of both ends with the key.
type Entry struct {
	Key, Value Node
	Fault      Fault
	First      int // line of the first key of the same name, if the fault is Twice
}

// Fault is what is wrong with a key, or "".
type Fault string

// The faults of keys.
const (
	NoWord Fault = "no word" // it is a mapping or a list
	Merge  Fault = "merge"   // it is <<
	Twice  Fault = "twice"   // the mapping has it already
)

// Entries returns the keys of a mapping in the order of the file.
func (n Node) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			e := Entry{Key: At(n.Content[i], "")}
			e.Key.Path = join(n.Path, e.Key.Value)
			e.Value = At(n.Content[i+1], e.Key.Path)

			first, twice := lines[e.Key.Value]
			switch {
			case e.Key.Kind != yaml.ScalarNode:
				e.Fault = NoWord
			case e.Key.ShortTag() == "!!merge":
				e.Fault = Merge
			case twice:
				e.Fault, e.First = Twice, first
			default:
				lines[e.Key.Value] = e.Key.Line
			}

			if !yield(e) {
				return
			}
		}
	}
}

// join appends a key to a path. It quotes a key that is not printable ASCII.
func join(path, key string) string {
	if odd := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); odd || key == "" {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
