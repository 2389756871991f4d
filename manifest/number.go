package manifest

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// decodeNumber reads a whole number from 1 to maxValue in plain digits. YAML
// libraries disagree on the value of other spellings, such as 0o10 and 1_000.
func (d *decoder) decodeNumber(n yamlfile.Node, maxValue int64) int64 {
	// An exponent in a file is a mistake. Only CloudFormation writes numbers
	// so.
	if d.textNumbers && strings.ContainsAny(n.Value, ".eE") {
		n.Node = expandExponent(n.Node)
	}

	isNumber := n.Is(yamlfile.Int, yamlfile.Float) || d.textNumbers && n.Is(yamlfile.Text)
	digits, negative := strings.CutPrefix(n.Value, "-")
	i, err := strconv.ParseInt(n.Value, 10, 64)

	switch {
	case !isNumber || strings.ContainsAny(n.Value, ".eE"):
		d.Problem(n, "must be a whole number, not %s", d.Describe(n))
	case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
		d.Problem(n, "must be a whole number in plain digits, such as 1000, not %q", n.Value)
	case negative || err == nil && i < 1:
		d.Problem(n, "must be at least 1, not %s", n.Value)
	case err != nil || i > maxValue:
		d.Problem(n, "must be at most %d, not %s", maxValue, n.Value)
	}
	return i
}

// decodeTokens reads a number of tokens of a limit: plain digits, or text such as
// 10k, 1.5M and, for money, $50.
func (d *decoder) decodeTokens(limit string, n yamlfile.Node) int64 {
	// Plain digits as text are what CloudFormation sends. In a file they are a
	// mistake, which decodeNumber describes.
	if !n.Is(yamlfile.Text) || strings.Trim(n.Value, "0123456789+-.eE") == "" {
		return d.decodeNumber(n, bucket.MaxTokens)
	}

	i, why := figure.Parse(limit, n.Value)
	switch {
	case why != "":
		d.Problem(n, "it is %q, but it %s", clip(n.Value), why)
	case i < 1:
		d.Problem(n, "must be at least 1, not %s", clip(n.Value))
	case i > bucket.MaxTokens:
		d.Problem(n, "must be at most %d, not %s", int64(bucket.MaxTokens), clip(n.Value))
	}
	return i
}

// decodeBool reads true or false.
func (d *decoder) decodeBool(n yamlfile.Node) bool {
	if d.textNumbers && n.Is(yamlfile.Text) && (n.Value == "true" || n.Value == "false") {
		return n.Value == "true"
	}
	return d.Bool(n)
}

// expandExponent returns a node with the plain digits of a whole number such as
// 1.0E7. It returns any other node unchanged.
func expandExponent(n *yaml.Node) *yaml.Node {
	// The bound on the exponent comes first: 1E999999999 would take a gigabyte
	// as plain digits.
	if !regexp.MustCompile(`^[1-9][0-9]*(\.[0-9]+)?([eE]\+?[0-9]{1,2})?$`).MatchString(n.Value) {
		return n
	}

	exact, ok := new(big.Rat).SetString(n.Value)
	if !ok || !exact.IsInt() {
		return n
	}

	plain := *n
	plain.Value = exact.Num().String()
	return &plain
}
