package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// CreateTable creates the table and registers the namespace of the options, so
// that Connect succeeds. It keeps an existing table or namespace, and several
// processes may call it at once. CreateTable is meant for tests and local
// engines. In an AWS account the table belongs to a stack, with backups, roles
// and the function that counts usage.
//
// CreateTable returns the same errors as Connect, and limiter.ErrExists if
// Options.LeanIndex is set and the table exists without a lean index.
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

	ctx = withoutTryTimeout(ctx)
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

const createTimeout = 5 * time.Minute

// createTable creates the table if it does not exist, and waits until it is
// active. It checks the indexes, since an existing table may belong to another
// program.
func (s *store) createTable(ctx context.Context) error {
	_, err := s.api(ctx).CreateTable(ctx, s.tableDefinition())
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return s.explain(err)
	}

	// By default the SDK waits 20 seconds before it looks again.
	waiter := dynamodb.NewTableExistsWaiter(s.slow, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, createTimeout)
	if err != nil {
		return s.explain(err)
	}

	indexes := map[string]types.GlobalSecondaryIndexDescription{}
	for _, index := range out.Table.GlobalSecondaryIndexes {
		indexes[aws.ToString(index.IndexName)] = index
	}

	for _, name := range []string{indexChildren, indexResource, indexConfigs, indexNamespace} {
		if _, ok := indexes[name]; !ok {
			return s.foreignTable()
		}
	}
	return s.checkResourceIndex(indexes[indexResource])
}

// tableDefinition returns the request that creates the table.
func (s *store) tableDefinition() *dynamodb.CreateTableInput {
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
			tableIndex(indexResource, attrGSI2PK, attrGSI2SK, resourceProjection(s.opts.LeanIndex)),
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
		IndexName: aws.String(name), KeySchema: keySchema(hash, sort),
		Projection: &types.Projection{ProjectionType: projection},
	}
}

// enableTTL enables the expiry of items. The service returns an error if another
// request has enabled it, so after an error enableTTL checks the state.
func (s *store) enableTTL(ctx context.Context) error {
	_, err := s.api(ctx).UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true),
		},
	})
	if err == nil {
		return nil
	}

	state, describeErr := s.api(ctx).DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if describeErr != nil || state.TimeToLiveDescription == nil ||
		aws.ToString(state.TimeToLiveDescription.AttributeName) != attrTTL {
		return s.explain(err)
	}
	return nil
}

// claimVersion writes the version record, or checks the existing one.
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

// putNew writes a new item. If its key is taken, it returns a
// *types.ConditionalCheckFailedException.
func (s *store) putNew(ctx context.Context, it item) error {
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: it}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = absent().parts()
	_, err := s.api(ctx).PutItem(ctx, in)
	return err
}
