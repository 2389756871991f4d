package dynamo

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update is an UpdateItem in the making. Placeholders are numbered, never built
// from names, which may have characters that placeholders may not. Every charge
// makes one, so it has room for those of two limits from the start.
type update struct {
	names            map[string]string
	values           item
	set, add, remove []byte // parts of the expression
	conditions       []byte
	numbers          []types.AttributeValueMemberN
}

func newUpdate() *update {
	const attrs, numbers = 12, 16
	return &update{
		names: make(map[string]string, attrs), values: make(item, numbers), numbers: make([]types.AttributeValueMemberN, 0, numbers),
		conditions: make([]byte, 0, 256),
	}
}

// The first placeholders, which need not be made.
const (
	attrPlaceholders  = "#0#1#2#3#4#5#6#7#8#9#10#11#12#13#14#15#16#17#18#19#20#21#22#23#24#25#26#27#28#29#30#31"
	valuePlaceholders = ":0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24:25:26:27:28:29:30:31"
)

// placeholder is the one of a number: of two characters below 10, then three.
func placeholder(first string, n int) string {
	if n < 10 {
		return first[2*n : 2*n+2]
	}
	if at := 20 + 3*(n-10); at < len(first) {
		return first[at : at+3]
	}
	return first[:1] + strconv.Itoa(n)
}

// attr is the placeholder of an attribute, which may be used more than once.
func (u *update) attr(name string) string {
	p := placeholder(attrPlaceholders, len(u.names))
	u.names[p] = name
	return p
}

// value is the placeholder of a value.
func (u *update) value(v types.AttributeValue) string {
	p := placeholder(valuePlaceholders, len(u.values))
	u.values[p] = v
	return p
}

func (u *update) number(n int64) string {
	if len(u.numbers) == cap(u.numbers) { // those that were handed out stay where they are
		return u.value(number(n))
	}
	u.numbers = append(u.numbers, types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)})
	return u.value(&u.numbers[len(u.numbers)-1])
}

func (u *update) setTo(attr string, v types.AttributeValue) {
	u.set = words(u.set, ", ", attr, "=", u.value(v))
}

func (u *update) addTo(attr string, n int64) { u.addValue(attr, u.number(n)) }

// addValue adds a value that has a placeholder.
func (u *update) addValue(attr, value string) { u.add = words(u.add, ", ", attr, value) }

func (u *update) removed(attr string) { u.remove = words(u.remove, ", ", u.attr(attr)) }

// when adds a condition; all have to hold.
func (u *update) when(parts ...string) { u.conditions = and(u.conditions, parts...) }

// and appends a condition to others that have to hold too.
func and(conditions []byte, parts ...string) []byte {
	return words(conditions, " AND ", parts...)
}

// words appends one more, made of words, to a list.
func words(list []byte, separator string, parts ...string) []byte {
	if len(list) > 0 {
		list = append(list, separator...)
	} else if list == nil {
		list = make([]byte, 0, 64)
	}
	for i, part := range parts {
		if i > 0 {
			list = append(list, ' ')
		}
		list = append(list, part...)
	}
	return list
}

func (u *update) expression() *string {
	all := make([]byte, 0, len(u.set)+len(u.add)+len(u.remove)+len("SET  ADD  REMOVE "))
	for _, clause := range []struct {
		verb string
		list []byte
	}{{"SET ", u.set}, {"ADD ", u.add}, {"REMOVE ", u.remove}} {
		if len(clause.list) == 0 {
			continue
		}
		if len(all) > 0 {
			all = append(all, ' ')
		}
		all = append(append(all, clause.verb...), clause.list...)
	}
	s := string(all)
	return &s
}

func (u *update) condition() *string {
	s := string(u.conditions)
	return &s
}

// input is the request that sends it alone.
func (u *update) input(table *string, k key) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: table, Key: k.at(), UpdateExpression: u.expression(), ConditionExpression: u.condition(),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// item is the request that sends it in a transaction.
func (u *update) item(table *string, k key) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: k.at(), UpdateExpression: u.expression(), ConditionExpression: u.condition(),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}
