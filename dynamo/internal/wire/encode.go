package wire

import (
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// encode returns the body of an update. It returns false if the update has a
// value or a parameter that no charge has.
func encode(in *dynamodb.UpdateItemInput) ([]byte, bool) {
	if in.AttributeUpdates != nil || in.Expected != nil || in.ConditionalOperator != "" ||
		in.ReturnItemCollectionMetrics != "" {
		return nil, false
	}

	e := encoder{to: make([]byte, 0, 2048), ok: true}
	e.to = append(e.to, '{')
	e.values("Key", in.Key)
	e.names("ExpressionAttributeNames", in.ExpressionAttributeNames)
	e.values("ExpressionAttributeValues", in.ExpressionAttributeValues)
	e.member("TableName", in.TableName)
	e.member("UpdateExpression", in.UpdateExpression)
	e.member("ConditionExpression", in.ConditionExpression)
	e.choice("ReturnValues", string(in.ReturnValues))
	e.choice("ReturnValuesOnConditionCheckFailure", string(in.ReturnValuesOnConditionCheckFailure))
	e.choice("ReturnConsumedCapacity", string(in.ReturnConsumedCapacity))

	e.to = append(e.to, '}')
	return e.to, e.ok
}

// encoder appends JSON.
type encoder struct {
	to []byte
	ok bool // everything so far can be encoded
}

// key appends the name of a member, after a comma unless it is the first.
func (e *encoder) key(name string) {
	if e.to[len(e.to)-1] != '{' {
		e.to = append(e.to, ',')
	}
	e.text(name)
	e.to = append(e.to, ':')
}

// member appends a text, unless there is none.
func (e *encoder) member(field string, text *string) {
	if text != nil {
		e.key(field)
		e.text(*text)
	}
}

// choice appends one of several values, unless it is the default.
func (e *encoder) choice(field, value string) {
	if value != "" {
		e.member(field, &value)
	}
}

// names appends the attributes of placeholders.
func (e *encoder) names(field string, names map[string]string) {
	if names == nil {
		return
	}
	e.key(field)
	e.to = append(e.to, '{')
	for placeholder, name := range names {
		e.key(placeholder)
		e.text(name)
	}
	e.to = append(e.to, '}')
}

// values appends attributes.
func (e *encoder) values(field string, values map[string]types.AttributeValue) {
	if values == nil {
		return
	}
	e.key(field)
	e.to = append(e.to, '{')
	for name, v := range values {
		e.key(name)
		e.value(v)
	}
	e.to = append(e.to, '}')
}

// value appends an attribute.
func (e *encoder) value(v types.AttributeValue) {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		e.to = append(e.to, `{"N":`...)
		e.text(v.Value)
	case *types.AttributeValueMemberS:
		e.to = append(e.to, `{"S":`...)
		e.text(v.Value)
	case *types.AttributeValueMemberBOOL:
		e.to = append(e.to, `{"BOOL":`...)
		if v.Value {
			e.to = append(e.to, "true"...)
		} else {
			e.to = append(e.to, "false"...)
		}
	default:
		e.ok = false
		return
	}
	e.to = append(e.to, '}')
}

// text appends a string. The SDK decides about strings that are not UTF-8.
func (e *encoder) text(s string) {
	const hex = "0123456789abcdef"
	e.ok = e.ok && utf8.ValidString(s)

	e.to = append(e.to, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			e.to = append(e.to, '\\', c)
		// JSON allows no control characters within strings.
		case c < ' ':
			e.to = append(e.to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			e.to = append(e.to, c)
		}
	}

	e.to = append(e.to, '"')
}
