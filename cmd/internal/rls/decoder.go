package rls

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// decoder reads nodes and collects the problems.
type decoder struct {
	yamlfile.Reader
	// read counts the keys and items so far, those of an alias at each use.
	read int
}

func newDecoder() *decoder {
	d := &decoder{}
	d.Form = yamlfile.Form{
		Empty:      "the file is empty; list rules under the key rules",
		Second:     "another document begins here; rules are one document",
		TextPrefix: "the text ",
		Full:       d.full,
	}
	return d
}

// full counts an entry, and reports whether the file is too large.
func (d *decoder) full(n yamlfile.Node) bool {
	if d.read++; d.read == maxEntries+1 {
		n.Path = ""
		d.Problem(n, "the file has more than %d keys and items; split it", maxEntries)
	}
	return d.read > maxEntries
}

// items calls read for every item of a list. The hint says what an empty list
// lacks.
func (d *decoder) items(n yamlfile.Node, hint string, read func(n yamlfile.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.Problem(n, "must be a list, not %s", d.Describe(n))
		return
	}

	if len(n.Content) == 0 {
		d.Problem(n, "is empty; %s", hint)
	}

	for i, item := range n.Content {
		if d.full(n) {
			return
		}
		read(yamlfile.At(item, fmt.Sprintf("%s[%d]", n.Path, i)))
	}
}

// word reads a string that is not empty.
func (d *decoder) word(n yamlfile.Node) string {
	text, ok := d.Text(n)
	if ok && text == "" {
		d.Problem(n.Used(), "must not be empty; leave the key out instead")
	}
	return text
}

// number reads an amount.
func (d *decoder) number(n yamlfile.Node) int64 {
	if !n.IsWhole() {
		d.Problem(n, "must be hits, or a whole number of at most 12 plain digits, not %s", d.Describe(n))
	}
	i, _ := strconv.ParseInt(n.Value, 10, 64)
	return i
}
