package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// change runs a transaction and explains its errors, which still match
// refusedAt.
func (s *store) change(ctx context.Context, items ...types.TransactWriteItem) error {
	return s.explain(s.transact(ctx, items...))
}

// putIf returns the write of a whole item, if a condition holds.
func (s *store) putIf(it item, c *condition) types.TransactWriteItem {
	put := &types.Put{TableName: &s.table, Item: it}
	put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = c.parts()
	return types.TransactWriteItem{Put: put}
}

// deleteIf returns the deletion of an item, if a condition holds.
func (s *store) deleteIf(k key, c *condition) types.TransactWriteItem {
	del := &types.Delete{TableName: &s.table, Key: k.at()}
	del.ConditionExpression, del.ExpressionAttributeNames, del.ExpressionAttributeValues = c.parts()
	return types.TransactWriteItem{Delete: del}
}

// indexedUpdate returns an update that may create its item. It indexes the item
// under its namespace, so that a purge finds it. The expression continues with
// more.
func (r *Repository) indexedUpdate(k key, more string, names map[string]string, values item) types.TransactWriteItem {
	names["#ns"], names["#pk"] = attrGSI4PK, attrGSI4SK
	values[":ns"], values[":pk"] = text(r.ns), text(k.pk)
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &r.table, Key: k.at(), ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		UpdateExpression: aws.String("SET #ns = if_not_exists(#ns, :ns), #pk = if_not_exists(#pk, :pk)" + more),
	}}
}

// condition is a conjunction of terms about attributes. A nil condition always
// holds.
type condition struct {
	text   string
	names  map[string]string
	values item
}

// present returns the condition that the item exists.
func present() *condition { return new(condition).exists(attrPK) }

// absent returns the condition that the item does not exist.
func absent() *condition { return new(condition).lacks(attrPK) }

func (c *condition) exists(attr string) *condition {
	return c.and("attribute_exists(" + c.name(attr) + ")")
}

func (c *condition) lacks(attr string) *condition {
	return c.and("attribute_not_exists(" + c.name(attr) + ")")
}

// same adds the term that an attribute equals the one in it, or is missing if it
// lacks the attribute.
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

// name returns a placeholder for an attribute. It is numbered, because names may
// hold any characters.
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

// parts returns the fields of a request that state the condition.
func (c *condition) parts() (expression *string, names map[string]string, values map[string]types.AttributeValue) {
	if c == nil {
		return nil, nil, nil
	}
	return aws.String(c.text), c.names, c.values
}
