package rls

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// maxEntries bounds the keys and items of a file, because aliases of aliases could
// make a small file arbitrarily large.
const maxEntries = 20_000

// ParseRules reads rules from YAML or JSON. It reports every problem it finds in
// one *[RulesError]. Unknown and duplicate keys are errors.
func ParseRules(data []byte) (*Rules, error) {
	d := newDecoder()
	out := &Rules{headers: true}

	if root, ok := d.Document(data); ok {
		given := d.Fields(root, yamlfile.Fields{
			"headers": func(n yamlfile.Node) { out.headers = d.Bool(n) },
			"rules":   func(n yamlfile.Node) { out.rules = d.rules(n) },
		})

		if !given.Has("rules") {
			d.Problem(root, "the key rules is missing; list at least one rule")
		}
	}

	if len(d.Problems) > 0 {
		slices.SortStableFunc(d.Problems, func(a, b yamlfile.Problem) int { return a.Line - b.Line })
		return nil, &RulesError{d.Problems}
	}

	return out, nil
}

// RulesError is the error for rules that cannot be used. It has at least one
// problem, in the order of the file.
type RulesError struct{ Problems []yamlfile.Problem }

// Error returns one line for each problem, such as "line 3: rules[0]: TEXT".
func (e *RulesError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// rules reads the list of rules, and finds rules that never apply.
func (d *decoder) rules(n yamlfile.Node) []rule {
	var all []rule
	d.items(n, "list at least one rule", func(n yamlfile.Node) {
		r := d.rule(n)
		// A rule without match takes every descriptor of its domain, or of all
		// domains.
		for _, earlier := range all {
			if earlier.match == nil && (earlier.domain == "" || earlier.domain == r.domain) {
				d.Problem(n,
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
func (d *decoder) rule(n yamlfile.Node) rule {
	r := rule{line: n.Line}

	given := d.Fields(n, yamlfile.Fields{
		"domain":    func(n yamlfile.Node) { r.domain = d.word(n) },
		"match":     func(n yamlfile.Node) { r.match = d.match(n) },
		"entity":    func(n yamlfile.Node) { r.entity = d.template(n) },
		"resource":  func(n yamlfile.Node) { r.resource = d.template(n) },
		"consume":   func(n yamlfile.Node) { r.amounts = d.amounts(n) },
		"settle":    func(n yamlfile.Node) { r.settle = d.Bool(n) },
		"give_back": func(n yamlfile.Node) { r.giveBack = d.Bool(n) },
		"no_limits": func(n yamlfile.Node) { r.allowNoLimits = d.answer(n) == allow },
		"answer":    func(n yamlfile.Node) { r.answer = d.answer(n) },
	})

	// fields has reported a node that is not a mapping, and its keys are not
	// known.
	if n.Kind != yaml.MappingNode {
		return r
	}

	if given.Has("answer") {
		for _, key := range append([]string{"settle", "give_back", "no_limits"}, charging...) {
			if given.Has(key) {
				d.Problem(n, "a rule with an answer charges nothing; remove answer or %s", key)
			}
		}
		return r
	}

	for _, key := range charging {
		if !given.Has(key) {
			d.Problem(n, "the key %s is missing; a rule has entity, resource and consume, or an answer", key)
		}
	}

	d.checkTarget(n, &r)
	return r
}

// checkTarget checks what can be known about entity, resource and amounts before
// a descriptor comes.
func (d *decoder) checkTarget(n yamlfile.Node, r *rule) {
	// A descriptor has exactly the keys of match, so that a template can use no
	// others.
	for _, t := range []template{r.entity, r.resource} {
		for _, key := range t.keys() {
			if _, ok := r.match[key]; !ok {
				d.Problem(n, "{%s} is not a key of match; add it there", key)
			}
		}
	}

	if r.entity != nil && r.resource != nil {
		sample := limiter.Request{
			Entity: r.entity.sample(), Resource: r.resource.sample(), Consume: limiter.Tokens("x", 1),
		}
		if err := sample.Validate(); err != nil {
			d.Problem(n, "%v", err)
		}
	}

	// Negative hits change only the amounts that count hits.
	if r.giveBack && r.amounts != nil && !slices.ContainsFunc(r.amounts, func(a amount) bool { return a.hits }) {
		d.Problem(n, "give_back needs a limit that counts hits; write consume: {tpm: hits}")
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
func (d *decoder) match(n yamlfile.Node) map[string]values {
	out := map[string]values{}
	d.Entries(n, func(key, value yamlfile.Node) {
		if value.Kind != yaml.SequenceNode {
			out[key.Value] = values{d.pattern(value)}
			return
		}

		var v values
		d.items(value, "list at least one value", func(n yamlfile.Node) {
			v = append(v, d.pattern(n))
		})

		out[key.Value] = v
	})

	if len(out) == 0 && n.Kind == yaml.MappingNode {
		d.Problem(n.Used(), "names no key; leave match out to match every descriptor")
	}
	return out
}

// pattern reads a value, which may end with a wildcard.
func (d *decoder) pattern(n yamlfile.Node) string {
	text, _ := d.Text(n)
	if at := strings.IndexByte(text, '*'); at >= 0 && at < len(text)-1 {
		d.Problem(n, "a * stands at the end only, not in %q", text)
	}
	return text
}

// template reads a template.
func (d *decoder) template(n yamlfile.Node) template {
	t, err := parseTemplate(d.word(n))
	if err != nil {
		d.Problem(n.Used(), "%v", err)
	}
	return t
}

// amounts reads what a rule takes of each limit.
func (d *decoder) amounts(n yamlfile.Node) []amount {
	var all []amount
	d.Entries(n, func(key, value yamlfile.Node) {
		if err := limiter.PerMinute(key.Value, 1).Validate(); err != nil {
			d.Problem(key, "%v", err)
			return
		}

		if value.Kind == yaml.ScalarNode && value.Value == "hits" {
			all = append(all, amount{limit: key.Value, hits: true})
			return
		}
		all = append(all, amount{limit: key.Value, fixed: d.number(value)})
	})
	// A limit with a problem is missing from the list as well, and was
	// reported.
	if len(all) == 0 && len(d.Problems) == 0 {
		d.Problem(n.Used(), "names no limit; write the name of a limit and a number, or hits")
	}
	return all
}

// answer reads a fixed answer.
func (d *decoder) answer(n yamlfile.Node) answer {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "allow":
		return allow
	case n.Kind == yaml.ScalarNode && n.Value == "refuse":
		return refuse
	}

	d.Problem(n, "must be allow or refuse, not %s", d.Describe(n))
	return judge
}
