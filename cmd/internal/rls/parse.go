package rls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
)

// maxEntries bounds the keys and items of a file, because aliases of aliases could
// make a small file arbitrarily large.
const maxEntries = 20_000

// ParseRules reads rules from YAML or JSON. It reports every problem it finds in
// one *[RulesError]. Unknown and duplicate keys are errors.
func ParseRules(data []byte) (*Rules, error) {
	root, err := parseDocument(data)
	if err != nil {
		return nil, err
	}

	d := &decoder{}
	out := &Rules{headers: true}

	given := d.fields(root, "", map[string]func(*yaml.Node, string){
		"headers": func(n *yaml.Node, path string) { out.headers = d.boolean(n, path) },
		"rules":   func(n *yaml.Node, path string) { out.rules = d.rules(n, path) },
	})

	if !slices.Contains(given, "rules") {
		d.problem(root, "", "the key rules is missing; list at least one rule")
	}

	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, &RulesError{d.problems}
	}

	return out, nil
}

// RulesError is the error for rules that cannot be used. It has at least one
// problem, in the order of the file.
type RulesError struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *RulesError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Problem describes one mistake in a file of rules.
type Problem struct {
	Line int    // from 1; 0 if unknown
	Text string // what is wrong, and what would be right
}

// String returns the line and the text, such as "line 3: TEXT".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return "line " + strconv.Itoa(p.Line) + ": " + p.Text
}

// parseDocument returns the root node of the only document in data.
func parseDocument(data []byte) (*yaml.Node, error) {
	in := yaml.NewDecoder(bytes.NewReader(data))

	var doc, next yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &RulesError{[]Problem{{Text: "the file is empty; list rules under the key rules"}}}
	case err != nil:
		return nil, &RulesError{[]Problem{syntaxProblem(err)}}
	}

	switch err := in.Decode(&next); {
	case err == nil:
		return nil, &RulesError{[]Problem{{next.Line, "another document begins here; rules are one document"}}}
	case !errors.Is(err, io.EOF):
		return nil, &RulesError{[]Problem{syntaxProblem(err)}}
	}

	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxProblem converts an error of the YAML library.
func syntaxProblem(err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	found := yamlLine.FindStringSubmatch(text)
	if found == nil {
		return Problem{Text: "invalid YAML: " + text}
	}
	line, _ := strconv.Atoi(found[1])
	return Problem{line, "invalid YAML: " + text[len(found[0]):]}
}

// rules reads the list of rules, and finds rules that never apply.
func (d *decoder) rules(n *yaml.Node, path string) []rule {
	var all []rule
	d.items(n, path, "list at least one rule", func(n *yaml.Node, path string) {
		r := d.rule(n, path)
		// A rule without match takes every descriptor of its domain, or of all
		// domains.
		for _, earlier := range all {
			if earlier.match == nil && (earlier.domain == "" || earlier.domain == r.domain) {
				d.problem(n, path,
					"the rule never applies, because the rule in line %d matches every descriptor; move that "+
						"one to the end",
					earlier.line)
				break
			}
		}

		all = append(all, r)
	})
	return all
}

// charging lists the keys of a rule that asks the limiter.
var charging = []string{"entity", "resource", "consume"}

// rule reads one rule.
func (d *decoder) rule(n *yaml.Node, path string) rule {
	r := rule{line: n.Line}

	given := d.fields(n, path, map[string]func(*yaml.Node, string){
		"domain":    func(n *yaml.Node, path string) { r.domain = d.word(n, path) },
		"match":     func(n *yaml.Node, path string) { r.match = d.match(n, path) },
		"entity":    func(n *yaml.Node, path string) { r.entity = d.template(n, path) },
		"resource":  func(n *yaml.Node, path string) { r.resource = d.template(n, path) },
		"consume":   func(n *yaml.Node, path string) { r.amounts = d.amounts(n, path) },
		"settle":    func(n *yaml.Node, path string) { r.settle = d.boolean(n, path) },
		"give_back": func(n *yaml.Node, path string) { r.giveBack = d.boolean(n, path) },
		"no_limits": func(n *yaml.Node, path string) { r.allowNoLimits = d.answer(n, path) == allow },
		"answer":    func(n *yaml.Node, path string) { r.answer = d.answer(n, path) },
	})

	// fields has reported a node that is not a mapping, and its keys are not
	// known.
	if n.Kind != yaml.MappingNode {
		return r
	}

	if slices.Contains(given, "answer") {
		for _, key := range append([]string{"settle", "give_back", "no_limits"}, charging...) {
			if slices.Contains(given, key) {
				d.problem(n, path, "a rule with an answer charges nothing; remove answer or %s", key)
			}
		}
		return r
	}

	for _, key := range charging {
		if !slices.Contains(given, key) {
			d.problem(n, path, "the key %s is missing; a rule has entity, resource and consume, or an answer", key)
		}
	}

	d.checkTarget(n, path, &r)
	return r
}

// checkTarget checks what can be known about entity, resource and amounts before
// a descriptor comes.
func (d *decoder) checkTarget(n *yaml.Node, path string, r *rule) {
	// A descriptor has exactly the keys of match, so that a template can use no
	// others.
	for _, t := range []template{r.entity, r.resource} {
		for _, key := range t.keys() {
			if _, ok := r.match[key]; !ok {
				d.problem(n, path, "{%s} is not a key of match; add it there", key)
			}
		}
	}

	if r.entity != nil && r.resource != nil {
		sample := limiter.Request{
			Entity: r.entity.sample(), Resource: r.resource.sample(), Consume: limiter.Tokens("x", 1),
		}
		if err := sample.Validate(); err != nil {
			d.problem(n, path, "%v", err)
		}
	}

	// Negative hits change only the amounts that count hits.
	if r.giveBack && r.amounts != nil && !slices.ContainsFunc(r.amounts, func(a amount) bool { return a.hits }) {
		d.problem(n, path, "give_back needs a limit that counts hits; write consume: {tpm: hits}")
	}
}

// sample returns an expansion that is valid if the literal parts are.
func (t template) sample() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
		if p.key != "" {
			b.WriteString("x")
		}
	}
	return b.String()
}

// match reads the keys and patterns of a descriptor.
func (d *decoder) match(n *yaml.Node, path string) map[string]values {
	out := map[string]values{}
	d.entries(n, path, func(key, value *yaml.Node, path string) {
		if value = resolve(value); value.Kind != yaml.SequenceNode {
			out[key.Value] = values{d.pattern(value, path)}
			return
		}

		var v values
		d.items(value, path, "list at least one value", func(n *yaml.Node, path string) {
			v = append(v, d.pattern(n, path))
		})

		out[key.Value] = v
	})

	if len(out) == 0 && resolve(n).Kind == yaml.MappingNode {
		d.problem(n, path, "names no key; leave match out to match every descriptor")
	}
	return out
}

// pattern reads a value, which may end with a wildcard.
func (d *decoder) pattern(n *yaml.Node, path string) string {
	text := d.text(n, path)
	if at := strings.IndexByte(text, '*'); at >= 0 && at < len(text)-1 {
		d.problem(n, path, "a * stands at the end only, not in %q", text)
	}
	return text
}

// template reads a template.
func (d *decoder) template(n *yaml.Node, path string) template {
	t, err := parseTemplate(d.word(n, path))
	if err != nil {
		d.problem(n, path, "%v", err)
	}
	return t
}

// amounts reads what a rule takes of each limit.
func (d *decoder) amounts(n *yaml.Node, path string) []amount {
	var all []amount
	d.entries(n, path, func(key, value *yaml.Node, path string) {
		if err := limiter.PerMinute(key.Value, 1).Validate(); err != nil {
			d.problem(key, path, "%v", err)
			return
		}

		value = resolve(value)
		if value.Kind == yaml.ScalarNode && value.Value == "hits" {
			all = append(all, amount{limit: key.Value, hits: true})
			return
		}
		all = append(all, amount{limit: key.Value, fixed: d.number(value, path)})
	})
	// A limit with a problem is missing from the list as well, and was
	// reported.
	if len(all) == 0 && len(d.problems) == 0 {
		d.problem(n, path, "names no limit; write the name of a limit and a number, or hits")
	}
	return all
}

// answer reads a fixed answer.
func (d *decoder) answer(n *yaml.Node, path string) answer {
	n = resolve(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "allow":
		return allow
	case n.Kind == yaml.ScalarNode && n.Value == "refuse":
		return refuse
	}

	d.problem(n, path, "must be allow or refuse, not %s", describe(n))
	return judge
}

func (d *decoder) problem(n *yaml.Node, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}

	d.problems = append(d.problems, Problem{n.Line, text})
}
