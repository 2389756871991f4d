package fakeaws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// serveTable forwards a request to DynamoDB Local, if that implements it.
func (c *Cloud) serveTable(r *Request) *Reply {
	// DynamoDB Local does not know the call.
	if r.Op == "DescribeContinuousBackups" {
		return &Reply{
			200, nil,
			[]byte(
				`{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED",` +
					`"PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"ENABLED",` +
					`"RecoveryPeriodInDays":7}}}`,
			),
		}
	}
	return c.forward(r)
}

// forward sends a request to DynamoDB Local.
func (c *Cloud) forward(r *Request) *Reply {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.Engine, bytes.NewReader(r.Body))
	if err != nil {
		c.tb.Error(err)
		return ErrorReply(r, 500, "InternalServerError", err.Error())
	}

	request.Header = r.Header.Clone()
	response, err := Transport.RoundTrip(request)
	if err != nil {
		return ErrorReply(r, 500, "InternalServerError", err.Error())
	}

	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return ErrorReply(r, 500, "InternalServerError", err.Error())
	}

	header := map[string]string{}
	for name := range maps.Keys(response.Header) {
		header[name] = response.Header.Get(name)
	}

	return &Reply{response.StatusCode, header, body}
}

// CreateTable creates the table of a stack, without any item, and drops it at the
// end of the test.
func (c *Cloud) CreateTable(name string) { c.createTable(name, false) }

func (c *Cloud) createTable(name string, lean bool) {
	ctx := context.Background()
	opts := &dynamo.Options{AWS: Config(c.Engine), LeanIndex: lean}

	if err := dynamo.CreateTable(ctx, name, opts); err != nil {
		c.tb.Errorf("create table %s: %v", name, err)
	}

	client := dynamodb.NewFromConfig(*opts.AWS)

	// CreateTable also writes the version record and a namespace, which
	// CloudFormation does not.
	found, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: &name})
	if err != nil {
		c.tb.Error(err)
		return
	}

	for _, item := range found.Items {
		key := maps.Clone(item)
		maps.DeleteFunc(key, func(attr string, _ types.AttributeValue) bool { return attr != "PK" && attr != "SK" })
		if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &name, Key: key}); err != nil {
			c.tb.Error(err)
		}
	}

	c.tb.Cleanup(func() { c.DropTable(name) })
}

// DropTable deletes a table, if it exists.
func (c *Cloud) DropTable(name string) {
	client := dynamodb.NewFromConfig(*Config(c.Engine))
	// The table may not exist.
	_, _ = client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
}

// SetSchema changes the version record of a table; "" deletes it.
func (c *Cloud) SetSchema(table, schema string) {
	client := dynamodb.NewFromConfig(*Config(c.Engine))
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

	key := map[string]types.AttributeValue{"PK": text("_/SYSTEM#"), "SK": text("#VERSION")}

	var err error
	if schema == "" {
		_, err = client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: &table, Key: key})
	} else {
		_, err = client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: &table, Key: key, UpdateExpression: aws.String("SET schema_version = :v"),
			ConditionExpression:       aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": text(schema)},
		})
	}

	if err != nil {
		c.tb.Error(err)
	}
}
