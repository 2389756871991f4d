package dynamo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// CreateTable makes the table and registers the namespace of the options, so
// that Connect works right after. What is there already stays as it is, and
// several processes may do this at once. It is meant for tests and local
// engines: a table in an account belongs to its stack, which also has backups,
// roles and the function that counts usage.
//
// Errors are those of Connect.
func CreateTable(ctx context.Context, name string, opts *Options) error {
	namespace := namespaceName(opts)
	if err := (limiter.Namespace{Name: namespace}).Validate(); err != nil {
		return err
	}
	const op = "create table"
	s, err := newStore(ctx, op, name, opts)
	if err != nil {
		return err
	}
	ctx = patient(ctx)
	for _, step := range []func(context.Context) error{s.createTable, s.claimVersion, s.enableTTL} {
		if err := step(ctx); err != nil {
			return s.failure(ctx, op, err)
		}
	}
	if _, err := s.register(ctx, s.clock(), namespace); err != nil {
		return s.failure(ctx, op, err)
	}
	return nil
}

const longestCreation = 5 * time.Minute

// createTable returns once the table can be used, whoever made it, and has our
// indexes: a table with our keys may still be that of another program.
func (s *store) createTable(ctx context.Context) error {
	_, err := s.api(ctx).CreateTable(ctx, s.definition())
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return s.explain(err)
	}
	waiter := dynamodb.NewTableExistsWaiter(s.slow, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, longestCreation)
	if err != nil {
		return s.explain(err)
	}
	var names []string
	for _, index := range out.Table.GlobalSecondaryIndexes {
		names = append(names, deref(index.IndexName))
	}
	for _, index := range []string{indexChildren, indexResource, indexConfigs, indexNamespace} {
		if !slices.Contains(names, index) {
			return s.foreignTable()
		}
	}
	return nil
}

func (s *store) definition() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &s.table,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(attrPK, attrSK),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled:  aws.Bool(true),
			StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			tableIndex(indexChildren, attrGSI1PK, attrGSI1SK, types.ProjectionTypeAll),
			tableIndex(indexResource, attrGSI2PK, attrGSI2SK, types.ProjectionTypeAll),
			tableIndex(indexConfigs, attrGSI3PK, attrGSI3SK, types.ProjectionTypeKeysOnly),
			tableIndex(indexNamespace, attrGSI4PK, attrGSI4SK, types.ProjectionTypeKeysOnly),
		},
	}
	for _, name := range []string{
		attrPK, attrSK, attrGSI1PK, attrGSI1SK, attrGSI2PK, attrGSI2SK, attrGSI3PK, attrGSI3SK, attrGSI4PK, attrGSI4SK,
	} {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

func tableIndex(name, hash, sort string, projection types.ProjectionType) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{
		IndexName: aws.String(name), KeySchema: keySchema(hash, sort), Projection: &types.Projection{ProjectionType: projection},
	}
}

// enableTTL makes the table drop what has expired. It is an error to ask for it
// twice, and to ask while another does, so what counts is how it is afterwards.
func (s *store) enableTTL(ctx context.Context) error {
	_, err := s.api(ctx).UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	if err == nil {
		return nil
	}
	now, describeErr := s.api(ctx).DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if describeErr != nil || now.TimeToLiveDescription == nil || deref(now.TimeToLiveDescription.AttributeName) != attrTTL {
		return s.explain(err)
	}
	return nil
}

// claimVersion writes the version record unless there is one, which then is
// checked.
func (s *store) claimVersion(ctx context.Context) error {
	err := s.putNew(ctx, s.newVersionRecord())
	if resultOf(err) != refused {
		return s.explain(err)
	}
	record, err := s.get(ctx, versionKey())
	if err != nil {
		return err
	}
	return s.checkVersion(record)
}

// putNew writes an item unless there is one under its key: then it fails with a
// *types.ConditionalCheckFailedException.
func (s *store) putNew(ctx context.Context, it item) error {
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: it}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = absent().parts()
	_, err := s.api(ctx).PutItem(ctx, in)
	return err
}
