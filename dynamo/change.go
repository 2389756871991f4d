package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// change is transact with errors explained. Whether it was refused can still be
// told from them.
func (s *store) change(ctx context.Context, items ...types.TransactWriteItem) error {
	return s.explain(s.transact(ctx, items...))
}

// putIf writes a whole item, if a condition holds.
func (s *store) putIf(it item, c *condition) types.TransactWriteItem {
	put := &types.Put{TableName: &s.table, Item: it}
	put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = c.parts()
	return types.TransactWriteItem{Put: put}
}

// deleteIf deletes an item, if a condition holds.
func (s *store) deleteIf(k key, c *condition) types.TransactWriteItem {
	del := &types.Delete{TableName: &s.table, Key: k.at()}
	del.ConditionExpression, del.ExpressionAttributeNames, del.ExpressionAttributeValues = c.parts()
	return types.TransactWriteItem{Delete: del}
}

// indexedUpdate is an update that may create its item, which is then indexed
// under its namespace, so that a purge finds it. The expression goes on with
// more.
func (r *Repository) indexedUpdate(k key, more string, names map[string]string, values item) types.TransactWriteItem {
	names["#ns"], names["#pk"] = attrGSI4PK, attrGSI4SK
	values[":ns"], values[":pk"] = text(r.ns), text(k.pk)
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &r.table, Key: k.at(), ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		UpdateExpression: aws.String("SET #ns = if_not_exists(#ns, :ns), #pk = if_not_exists(#pk, :pk)" + more),
	}}
}

// condition is a conjunction about attributes. Nil always holds.
type condition struct {
	text   string
	names  map[string]string
	values item
}

func present() *condition { return new(condition).exists(attrPK) }
func absent() *condition  { return new(condition).lacks(attrPK) }

func (c *condition) exists(attr string) *condition {
	return c.and("attribute_exists(" + c.name(attr) + ")")
}

func (c *condition) lacks(attr string) *condition {
	return c.and("attribute_not_exists(" + c.name(attr) + ")")
}

// same holds while an attribute is as in it, or missing as in it.
func (c *condition) same(it item, attr string) *condition {
	v, ok := it[attr]
	if !ok {
		return c.lacks(attr)
	}
	if c.values == nil {
		c.values = item{}
	}
	placeholder := fmt.Sprintf(":v%d", len(c.values))
	c.values[placeholder] = v
	return c.and(c.name(attr) + " = " + placeholder)
}

// name is the placeholder of an attribute. It is numbered: names may hold
// anything.
func (c *condition) name(attr string) string {
	if c.names == nil {
		c.names = map[string]string{}
	}
	placeholder := fmt.Sprintf("#k%d", len(c.names))
	c.names[placeholder] = attr
	return placeholder
}

func (c *condition) and(term string) *condition {
	if c.text != "" {
		c.text += " AND "
	}
	c.text += term
	return c
}

func (c *condition) parts() (expression *string, names map[string]string, values map[string]types.AttributeValue) {
	if c == nil {
		return nil, nil, nil
	}
	return aws.String(c.text), c.names, c.values
}
