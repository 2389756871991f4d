package dynamo

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// item holds the attributes that the table stores under one key.
type item map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func truth(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }
func nothing() types.AttributeValue     { return &types.AttributeValueMemberNULL{Value: true} }
func textOrNull(s string) types.AttributeValue {
	if s == "" {
		return nothing()
	}
	return text(s)
}

// at returns the key as attributes.
func (k key) at() item { return item{attrPK: text(k.pk), attrSK: text(k.sk)} }

// newItem returns an item with the given key. It is indexed under its namespace,
// so that a purge finds it.
func newItem(ns string, k key) item {
	it := k.at()
	it[attrGSI4PK], it[attrGSI4SK] = text(ns), text(k.pk)
	return it
}

// key returns the primary key of the item.
func (it item) key() key { return key{it.text(attrPK), it.text(attrSK)} }

// in reports whether the key of the item belongs to a namespace.
func (it item) in(ns string) bool { return strings.HasPrefix(it.text(attrPK), namespacePrefix(ns)) }

// text returns a string attribute, or "" if there is none.
func (it item) text(attr string) string {
	if v, ok := it[attr].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// truth returns a boolean attribute, or false if there is none.
func (it item) truth(attr string) bool {
	v, ok := it[attr].(*types.AttributeValueMemberBOOL)
	return ok && v.Value
}

// number returns an integer attribute, or 0 if there is none. It clamps numbers
// that exceed 64 bits, and returns a *limiter.CorruptError for other values.
func (it item) number(attr string) (int64, error) {
	v, found := it[attr]
	if !found {
		return 0, nil
	}

	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, it.corrupt(attr + " is not a number")
	}

	i, ok := parseNumber(n.Value)
	if !ok {
		return 0, it.corrupt(attr + " is " + strconv.Quote(n.Value) + ", not a whole number")
	}
	return i, nil
}

// parseNumber parses an integer as DynamoDB stores it: digits, optionally with an
// exponent.
func parseNumber(s string) (int64, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, true
	}

	// ParseInt fails for an exponent, as in 1E+3, and for a number beyond 64
	// bits.
	f, err := strconv.ParseFloat(s, 64)
	switch {
	// ParseFloat also accepts Inf, NaN and hexadecimal digits, which DynamoDB
	// does not store.
	case err != nil || strings.Trim(s, "0123456789+-.eE") != "" || f != math.Trunc(f):
		return 0, false
	case f >= math.MaxInt64:
		return math.MaxInt64, true
	case f <= math.MinInt64:
		return math.MinInt64, true
	case math.Abs(f) > 1<<53:
		// A float64 would not be exact.
		return parseExponent(s)
	}
	return int64(f), true
}

// parseExponent parses digits with an exponent, such as 1.5E+18.
func parseExponent(s string) (int64, bool) {
	digits, exponent, ok := strings.Cut(strings.ToUpper(s), "E")
	shift, err := strconv.Atoi(exponent)
	if !ok || err != nil {
		return 0, false
	}

	// In 1.5E+18, the digit of the fraction replaces a zero: 15 and 17 zeros.
	whole, fraction, _ := strings.Cut(digits, ".")
	shift -= len(fraction)
	if shift < 0 || shift > 19 {
		return 0, false
	}

	i, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", shift), 10, 64)
	return i, err == nil
}

// corrupt returns a *limiter.CorruptError for the item.
func (it item) corrupt(reason string) error {
	return &limiter.CorruptError{Item: "item " + it.key().String(), Reason: reason}
}

const stampLayout = "2006-01-02T15:04:05Z"

// stamp returns a time as the table stores it: UTC, in whole seconds.
func stamp(t time.Time) types.AttributeValue { return text(t.UTC().Format(stampLayout)) }

// time returns a stored time, or the zero time if the attribute is missing or
// malformed.
func (it item) time(attr string) time.Time {
	t, err := time.Parse(stampLayout, it.text(attr))
	if err != nil {
		return time.Time{}
	}
	return t
}

// value returns the attribute for a value in metadata or audit details. It
// returns false for an unsupported type.
func value(v any) (types.AttributeValue, bool) {
	switch v := v.(type) {
	case nil:
		return nothing(), true
	case string:
		return text(v), true
	case bool:
		return truth(v), true
	case int:
		return number(int64(v)), true
	case int64:
		return number(v), true
	// DynamoDB stores neither NaN nor infinity.
	case float64:
		return &types.AttributeValueMemberN{
			Value: strconv.FormatFloat(v, 'f', -1, 64),
		}, !math.IsNaN(v) && !math.IsInf(v, 0)
	case map[string]any:
		return valueMap(v), true
	case map[string]string:
		m := make(map[string]types.AttributeValue, len(v))
		for name, s := range v {
			m[name] = text(s)
		}
		return &types.AttributeValueMemberM{Value: m}, true
	case []any:
		return valueList(v), true
	}
	return nil, false
}

func valueMap(details map[string]any) types.AttributeValue {
	m := make(map[string]types.AttributeValue, len(details))
	for name, d := range details {
		if stored, ok := value(d); ok {
			m[name] = stored
		}
	}
	return &types.AttributeValueMemberM{Value: m}
}

func valueList(list []any) types.AttributeValue {
	l := make([]types.AttributeValue, 0, len(list))
	for _, d := range list {
		if stored, ok := value(d); ok {
			l = append(l, stored)
		}
	}
	return &types.AttributeValueMemberL{Value: l}
}

// plain returns the Go value of an attribute. Integers become int64, other
// numbers float64, and unsupported types nil.
func plain(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberN:
		// A number with a point is a float in Python, even 1.0.
		if i, ok := parseNumber(v.Value); ok && !strings.Contains(v.Value, ".") {
			return i
		}

		f, err := strconv.ParseFloat(v.Value, 64)
		if err != nil {
			return v.Value
		}
		return f
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(v.Value))
		for name, d := range v.Value {
			m[name] = plain(d)
		}
		return m
	case *types.AttributeValueMemberL:
		l := make([]any, 0, len(v.Value))
		for _, d := range v.Value {
			l = append(l, plain(d))
		}
		return l
	}
	return nil
}
