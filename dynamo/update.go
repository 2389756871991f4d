package dynamo

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update is an UpdateItem in the making. Placeholders are numbered, never built
// from names, which may have characters that placeholders may not.
type update struct {
	names            map[string]string
	values           item
	set, add, remove []string
	conditions       []string
}

func newUpdate() *update { return &update{names: map[string]string{}, values: item{}} }

// attr is the placeholder of an attribute, which may be used more than once.
func (u *update) attr(name string) string {
	p := "#" + strconv.Itoa(len(u.names))
	u.names[p] = name
	return p
}

// value is the placeholder of a value.
func (u *update) value(v types.AttributeValue) string {
	p := ":" + strconv.Itoa(len(u.values))
	u.values[p] = v
	return p
}

func (u *update) number(n int64) string { return u.value(number(n)) }

func (u *update) setTo(attr string, v types.AttributeValue) {
	u.set = append(u.set, attr+" = "+u.value(v))
}

func (u *update) addTo(attr string, n int64) { u.add = append(u.add, attr+" "+u.number(n)) }

func (u *update) removed(attr string) { u.remove = append(u.remove, u.attr(attr)) }

// when adds a condition; all have to hold.
func (u *update) when(parts ...string) {
	u.conditions = append(u.conditions, strings.Join(parts, " "))
}

func (u *update) expression() *string {
	var b strings.Builder
	for _, clause := range []struct {
		verb  string
		parts []string
	}{{"SET ", u.set}, {"ADD ", u.add}, {"REMOVE ", u.remove}} {
		if len(clause.parts) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(clause.verb)
		b.WriteString(strings.Join(clause.parts, ", "))
	}
	s := b.String()
	return &s
}

func (u *update) condition() *string {
	s := strings.Join(u.conditions, " AND ")
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
