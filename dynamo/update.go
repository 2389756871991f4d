package dynamo

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update builds an UpdateItem. Placeholders are numbered, never built from names,
// which may have characters that placeholders must not.
type update struct {
	names            map[string]string
	values           item
	set, add, remove []byte // parts of the expression
	conditions       []byte
	numbers          []types.AttributeValueMemberN
}

// newUpdate returns an update with room for two limits.
func newUpdate() *update {
	const attrs, numbers = 13, 16
	return &update{
		names: make(map[string]string, attrs), values: make(item, numbers),
		numbers:    make([]types.AttributeValueMemberN, 0, numbers),
		conditions: make([]byte, 0, 256),
	}
}

// The first placeholders, as substrings without an allocation.
const (
	attrPlaceholders  = "#0#1#2#3#4#5#6#7#8#9#10#11#12#13#14#15#16#17#18#19#20#21#22#23#24#25#26#27#28#29#30#31"
	valuePlaceholders = ":0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24:25:26:27:28:29:30:31"
)

// placeholder returns placeholder n: two characters below 10, then three.
func placeholder(first string, n int) string {
	if n < 10 {
		return first[2*n : 2*n+2]
	}
	if at := 20 + 3*(n-10); at < len(first) {
		return first[at : at+3]
	}
	return first[:1] + strconv.Itoa(n)
}

// attr returns a placeholder for an attribute. It may be used more than once.
func (u *update) attr(name string) string {
	p := placeholder(attrPlaceholders, len(u.names))
	u.names[p] = name
	return p
}

// value returns a placeholder for a value.
func (u *update) value(v types.AttributeValue) string {
	p := placeholder(valuePlaceholders, len(u.values))
	u.values[p] = v
	return p
}

// number returns a placeholder for a number.
func (u *update) number(n int64) string {
	if len(u.numbers) == cap(u.numbers) {
		// Growing the list would move the values that u.values points to.
		return u.value(number(n))
	}

	u.numbers = append(u.numbers, types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)})
	return u.value(&u.numbers[len(u.numbers)-1])
}

// setTo sets an attribute to a value.
func (u *update) setTo(attr string, v types.AttributeValue) {
	u.set = appendWords(u.set, ",", attr, "=", u.value(v))
}

// addTo adds a number to an attribute.
func (u *update) addTo(attr string, n int64) { u.addValue(attr, u.number(n)) }

// addValue adds the value of a placeholder to an attribute.
func (u *update) addValue(attr, value string) { u.add = appendWords(u.add, ",", attr, value) }

// removeAttr removes an attribute.
func (u *update) removeAttr(attr string) { u.remove = appendWords(u.remove, ",", u.attr(attr)) }

// when adds a condition. The write needs all of them.
func (u *update) when(parts ...string) { u.conditions = and(u.conditions, parts...) }

// and appends a condition to conditions.
func and(conditions []byte, parts ...string) []byte {
	return appendWords(conditions, " AND ", parts...)
}

// appendWords appends an element, made of words, to a list. It sets no spaces around
// comparisons: an expression has at most 4 KB.
func appendWords(list []byte, separator string, parts ...string) []byte {
	if len(list) > 0 {
		list = append(list, separator...)
	} else if list == nil {
		list = make([]byte, 0, 64)
	}

	for i, part := range parts {
		// A comparison needs no spaces around it, as in #0<=:1.
		if i > 0 && !isComparison(part) && !isComparison(parts[i-1]) {
			list = append(list, ' ')
		}
		list = append(list, part...)
	}
	return list
}

// isComparison reports whether a word is an operator like "<=".
func isComparison(word string) bool { return word[0] >= '<' && word[0] <= '>' }

// expression returns the update expression.
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

// condition returns the condition expression.
func (u *update) condition() *string {
	s := string(u.conditions)
	return &s
}

// input returns the request that sends the update by itself.
func (u *update) input(table *string, k key) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: table, Key: k.at(), UpdateExpression: u.expression(), ConditionExpression: u.condition(),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// item returns the update as part of a transaction.
func (u *update) item(table *string, k key) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: k.at(), UpdateExpression: u.expression(), ConditionExpression: u.condition(),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// requireRate requires that a limit has the parameters of the image and, for a quota,
// the window. The stored rate of a quota does not matter. requireRate returns the
// placeholder of the capacity, for other conditions.
func (u *update) requireRate(c *storedLimit) (capacity string) {
	capacity = u.number(c.rate.Capacity)
	u.when(u.attr(bucketAttr(c.name, fieldCapacity)), "=", capacity)

	if c.every != 0 {
		u.requireStart(c)
		return capacity
	}

	u.when(u.attr(bucketAttr(c.name, fieldAmount)), "=", u.number(c.rate.Amount))
	u.when(u.attr(bucketAttr(c.name, fieldPeriod)), "=", u.number(c.rate.Period))
	return capacity
}

// requireStart requires that the tokens of a quota belong to the window of the image.
func (u *update) requireStart(c *storedLimit) {
	start := u.attr(bucketAttr(c.name, fieldStart))
	if c.extras&hasStart == 0 {
		u.when("attribute_not_exists(" + start + ")")
	} else {
		u.when(start, "=", u.number(c.start))
	}
}

// requireLife requires that the bucket has not been replaced by another, as far as
// its life is known.
func (u *update) requireLife(life string) {
	if life != "" {
		u.when(u.attr(attrLife), "=", u.value(text(life)))
	}
}

// requireShape requires that no limit joined, left or changed since the image. A
// write that moves the refill time needs it: a limit that it does not know would
// lose what it gained until then. The refill time alone does not show this if a
// clock is behind. A debit of a quota needs it too, because windows of different
// lengths may start together.
func (u *update) requireShape(img *image) (shape string) {
	shape = u.attr(attrShape)
	if img.shape == 0 {
		u.when("attribute_not_exists(" + shape + ")")
	} else {
		u.when(shape, "=", u.number(img.shape))
	}
	return shape
}
