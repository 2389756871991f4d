package llm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// Bounds of a price file. Without them, aliases could make a small file
// arbitrarily large.
const (
	maxPrices   = 100_000
	maxPrice    = 1_000_000_000_000_000 // a thousand million dollars
	maxSize     = 1_000_000_000         // tokens of max_output and context
	maxProblems = 100                   // reported
)

// ParsePrices reads prices from YAML or JSON:
//
//	models:
//	  large: {input: $3, output: $15, cache_read: $0.30, cache_write: $3.75, max_output: 8192, context: 200000}
//	  small*:                                          # small, small-2, ...
//	    - {input: $0.20, output: $0.80}                # at first
//	    - {from: 2027-01-01, input: $0.10, output: $0.40}
//	  "*": {input: 5000000, output: 20000000, request: 1000}
//
// A price is a dollar sign and dollars with up to six decimals, or a whole number
// of millionths of a dollar: $3 is 3000000. The key request is for each call, the
// others are for a million tokens. The keys input and output are required. The
// default of cache_read and cache_write is input, and of request 0. The keys
// max_output and context are sizes of the model in tokens; by default they are not
// known. A name may end in "*". The dates of a list ascend, and only the first
// entry may have none.
//
// The file is the name for messages. The error joins an *limiter.InvalidError for
// each problem, with its line.
func ParsePrices(file string, data []byte) (*PriceList, error) {
	p := &priceParser{file: file, list: &PriceList{file: file, prices: map[string][]Price{}}}
	p.Form = yamlfile.Form{
		Empty:      "the file is empty; list prices under models",
		Second:     "another document begins here; a price file is one document",
		TextPrefix: "the text ",
		Clip:       shorten,
	}

	if root, ok := p.Document(data); ok {
		p.parseRoot(root)
	}
	if len(p.Problems) > 0 {
		return nil, p.err()
	}
	return p.list, nil
}

// priceParser turns nodes into prices and collects the problems.
type priceParser struct {
	yamlfile.Reader
	file  string
	list  *PriceList
	count int // of prices
}

// problem adds a problem at a line.
func (p *priceParser) problem(line int, format string, args ...any) {
	if len(p.Problems) < maxProblems {
		p.Problems = append(p.Problems, yamlfile.Problem{Line: line, Text: fmt.Sprintf(format, args...)})
	}
}

// err joins the problems.
func (p *priceParser) err() error {
	all := make([]error, len(p.Problems))
	for i, problem := range p.Problems {
		at := p.file
		if problem.Line > 0 {
			at += ":" + strconv.Itoa(problem.Line)
		}
		all[i] = &limiter.InvalidError{Field: at, Reason: problem.Text}
	}
	return errors.Join(all...)
}

func (p *priceParser) parseRoot(root yamlfile.Node) {
	found := false
	p.eachEntry(root, "the file", func(key, value yamlfile.Node) {
		if key.Value != "models" {
			p.problem(key.Line, "there is no key %q here; the only one is models", shorten(key.Value))
			return
		}
		found = true
		p.eachEntry(value, "models", p.parseModel)
	})
	// Without the models, the message would hide the actual mistakes.
	if len(p.Problems) > 0 {
		return
	}

	if !found || len(p.list.names) == 0 {
		p.problem(root.Line, "there are no prices; list some under models")
	}
}

// eachEntry calls parse for every key of a mapping.
func (p *priceParser) eachEntry(n yamlfile.Node, what string, parse func(key, value yamlfile.Node)) {
	if n.Kind != yaml.MappingNode {
		p.problem(n.Used().Line, "%s must be a mapping, not %s", what, p.Describe(n))
		return
	}

	for e := range n.Entries() {
		if len(p.Problems) >= maxProblems {
			return
		}

		switch {
		case e.Fault == yamlfile.NoWord || e.Key.Is(yamlfile.Null):
			p.problem(e.Key.Line, "a key of %s must be a word, not %s", what, p.Describe(e.Key))
		case e.Fault == yamlfile.Merge:
			p.problem(e.Key.Line, "merge keys are not supported; repeat the prices")
		case e.Fault == yamlfile.Twice:
			p.problem(e.Key.Line, "%q is listed twice; the first one is in line %d", shorten(e.Key.Value), e.First)
		default:
			parse(e.Key, e.Value)
		}
	}
}

// parseModel reads the prices of a model: one, or a list by date.
func (p *priceParser) parseModel(key, value yamlfile.Node) {
	name := key.Value
	if name == "" || len(name) > maxModel || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
		p.problem(key.Line,
			"%q must be the name of a model with at most %d characters, or its beginning and one \"*\" at the end",
			shorten(name), maxModel)
		return
	}

	entries := []yamlfile.Node{value}
	if value.Kind == yaml.SequenceNode {
		entries = nil
		for _, item := range value.Content {
			entries = append(entries, yamlfile.At(item, ""))
		}

		if len(entries) == 0 {
			p.problem(key.Line, "the model %q has an empty list of prices; give one, or remove the model",
				shorten(name))
			return
		}
	}

	// The nodes of an alias count each time it is used.
	if p.count += len(entries); p.count > maxPrices {
		p.problem(key.Line, "a price file has at most %d prices", maxPrices)
		return
	}

	var dated []Price
	for i, entry := range entries {
		price, ok := p.parsePrice(entry, name)
		if ok && i > 0 && len(dated) == i && !price.From.After(dated[i-1].From) {
			p.problem(entry.Used().Line,
				"the price of %q needs a date after the one before it; give from, and sort the list by it",
				shorten(name))
		}
		dated = append(dated, price)
	}

	p.list.names = append(p.list.names, name)
	p.list.prices[name] = dated
}

// parsePrice reads one price, and reports whether it is valid.
func (p *priceParser) parsePrice(n yamlfile.Node, name string) (price Price, ok bool) {
	before := len(p.Problems)
	var given []string
	amounts := map[string]*int64{
		"input": &price.Input, "output": &price.Output, "cache_read": &price.CacheRead,
		"cache_write": &price.CacheWrite, "request": &price.Request,
	}
	sizes := map[string]*int64{"max_output": &price.MaxOutput, "context": &price.Context, "image": &price.Image}

	what := fmt.Sprintf("the price of %q", shorten(name))
	p.eachEntry(n, what, func(key, value yamlfile.Node) {
		given = append(given, key.Value)
		amount, isPrice := amounts[key.Value]
		size, isSize := sizes[key.Value]
		of := key.Value + " of " + strconv.Quote(shorten(name))
		switch {
		case key.Value == "from":
			price.From = p.parseDate(value, what)
		case isPrice:
			*amount = p.parseAmount(value, of)
		case isSize:
			*size = p.parseSize(value, of)
		default:
			p.problem(key.Line, "there is no key %q here; the keys are %s", shorten(key.Value), priceKeys)
		}
	})
	// After a misspelled key, the price only seems to lack the right one.
	if len(p.Problems) > before {
		return price, false
	}

	for _, required := range []string{"input", "output"} {
		if !slices.Contains(given, required) {
			p.problem(n.Used().Line, "%s has no %s; give one, or 0 for tokens that are free", what, required)
		}
	}

	for part, amount := range map[string]*int64{"cache_read": &price.CacheRead, "cache_write": &price.CacheWrite} {
		if !slices.Contains(given, part) {
			*amount = price.Input
		}
	}
	return price, len(p.Problems) == before
}

const priceKeys = "from, input, output, cache_read, cache_write, request, max_output, context and image"

// parseDate reads the date from which a price applies.
func (p *priceParser) parseDate(n yamlfile.Node, what string) time.Time {
	at, err := time.Parse(time.DateOnly, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		p.problem(n.Used().Line, "from, in %s, must be a date such as 2027-01-31, not %s", what, p.Describe(n))
	}
	return at
}

// parseAmount reads a price: dollars behind their sign, or a whole number of
// millionths.
func (p *priceParser) parseAmount(n yamlfile.Node, what string) int64 {
	dollars, isDollars := strings.CutPrefix(n.Value, "$")
	if n.Kind == yaml.ScalarNode && isDollars {
		return p.parseDollars(n.Used().Line, dollars, what)
	}
	return p.parseWhole(n, what, "a whole number of millionths of a dollar", ", such as 3000000 for $3", maxPrice)
}

// parseSize reads a number of tokens.
func (p *priceParser) parseSize(n yamlfile.Node, what string) int64 {
	size := p.parseWhole(n, what, "a whole number of tokens", ", such as 8192", maxSize)
	if n.Value == "0" {
		p.problem(n.Used().Line, "%s must be at least 1; leave it out if it is not known", what)
	}
	return size
}

// parseDollars reads dollars with up to six decimals, such as 3 and 0.125.
func (p *priceParser) parseDollars(line int, text, what string) int64 {
	whole, decimals, hasPoint := strings.Cut(text, ".")
	digits := whole + decimals
	amount, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", max(0, 6-len(decimals))), 10, 64)

	switch {
	case strings.HasPrefix(text, "-"):
		p.problem(line, "%s must not be negative, but is $%s", what, shorten(text))
	case whole == "" || hasPoint && decimals == "" || strings.Trim(digits, "0123456789") != "" || len(whole) > 1 &&
		whole[0] == '0':
		p.problem(line, "%s must be dollars in plain digits, such as $3 or $0.25, not $%s", what, shorten(text))
	case len(decimals) > 6:
		p.problem(line, "%s must have at most six decimals, not $%s", what, shorten(text))
	case err != nil || amount > maxPrice:
		p.problem(line, "%s must be at most $%d, not $%s", what, int64(maxPrice/perMillion), shorten(text))
	}
	return amount
}

// parseWhole reads a whole number of at most most in plain digits. YAML libraries
// disagree on the value of other spellings, such as 0o10 and 1_000.
func (p *priceParser) parseWhole(n yamlfile.Node, what, want, example string, most int64) int64 {
	line := n.Used().Line
	amount, err := strconv.ParseInt(n.Value, 10, 64)
	// A number of more than 64 bits has the tag of a float.
	isNumber := n.Is(yamlfile.Int, yamlfile.Float)
	digits := strings.TrimPrefix(n.Value, "-")

	switch {
	case !isNumber:
		p.problem(line, "%s must be %s, not %s", what, want, p.Describe(n))
	case strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
		p.problem(line, "%s must be %s in plain digits%s, not %s", what, want, example, shorten(n.Value))
	case strings.HasPrefix(n.Value, "-"):
		p.problem(line, "%s must not be negative, but is %s", what, shorten(n.Value))
	case err != nil || amount > most:
		p.problem(line, "%s must be at most %d, not %s", what, most, shorten(n.Value))
	}
	return amount
}

// shorten returns the beginning of a text for a problem.
func shorten(text string) string { return fmt.Sprintf("%.50s", text) }
