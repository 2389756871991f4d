package infra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// DeleteTableOptions configures [DeleteTable]. The zero value of a field is its
// default.
type DeleteTableOptions struct {
	Options Options
	// Confirm, if not nil, is called before the table is deleted. If it returns an
	// error, DeleteTable returns that error and deletes nothing.
	Confirm func(TableRemoval) error
}

// TableRemoval describes what DeleteTable is about to do, or has done.
type TableRemoval struct {
	Name    string `json:"name" doc:"name of the table"`
	Region  string `json:"region" doc:"AWS region"`
	Existed bool   `json:"existed" doc:"whether the table existed"`
	Items   int64  `json:"items" doc:"approximate number of items in the table"`
}

// DeleteTable deletes a table that belongs to no stack, with all its data, and waits
// until it is deleted. It succeeds if there is no table.
//
// It returns a *RefusedError if the table belongs to a stack (see [Delete]), is
// protected, or has items but no version record; a *limiter.VersionError if it
// belongs to another program or a newer version; a *limiter.InvalidError before any
// call if the name is invalid; and a *limiter.UnavailableError if AWS cannot be
// reached or denies access.
func DeleteTable(ctx context.Context, name string, opts *DeleteTableOptions) (TableRemoval, error) {
	if opts == nil {
		opts = &DeleteTableOptions{}
	}
	s, err := newStackSession(ctx, "delete table", name, &opts.Options)
	if err != nil {
		return TableRemoval{}, err
	}
	r, err := s.deleteTable(ctx, opts)
	return r, translateError(ctx, "delete table", err)
}

func (s *session) deleteTable(ctx context.Context, opts *DeleteTableOptions) (TableRemoval, error) {
	r := TableRemoval{Name: s.name, Region: s.region}
	out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.name})
	if is[*ddb.ResourceNotFoundException](err) {
		return r, nil
	}

	if err != nil {
		return r, err
	}

	r.Existed, r.Items = true, aws.ToInt64(out.Table.ItemCount)

	if err := s.checkDeletable(ctx, out.Table); err != nil {
		return r, err
	}

	if opts.Confirm != nil {
		if err := opts.Confirm(r); err != nil {
			return r, &confirmError{err}
		}
	}

	return r, s.dropTable(ctx)
}

// checkDeletable refuses to delete a table that is owned, protected or unknown.
func (s *session) checkDeletable(ctx context.Context, table *ddb.TableDescription) error {
	if err := s.checkUnowned(ctx); err != nil {
		return err
	}
	if aws.ToBool(table.DeletionProtectionEnabled) {
		off := s.remedy(remedy.UnprotectTable, s.name)
		return s.refuseTable(
			"it is protected; disable the protection with "+off.Error()+", and delete it again", off,
		)
	}
	return s.checkPrepared(ctx)
}

func (s *session) refuseTable(reason string, remedies ...*dynamo.Remedy) error {
	return remedy.With(&RefusedError{Table: s.name, Reason: reason}, remedies...)
}

// checkUnowned refuses a table that belongs to any stack. Without CloudFormation it
// belongs to none.
func (s *session) checkUnowned(ctx context.Context) error {
	stack, err := s.find(ctx)
	if is[*noCloudFormationError](err) {
		return nil
	}

	if err != nil {
		return err
	}

	// A stack of the same name may still be creating the table, so its tag is
	// enough.
	if stateOf(stack) != missing {
		owned, err := s.physicalID(ctx, stack, tableResource)
		if err != nil {
			return err
		}
		if owned == s.name || tagsOf(*stack)[tagManagedBy] == manager {
			remove := s.remedy(remedy.Delete, s.name)
			return s.refuseTable(fmt.Sprintf("it belongs to stack %s (%s); %v deletes both", s.name,
				stack.StackStatus, remove), remove)
		}
	}

	// A stack of any other name may own the table too.
	out, err := s.stacks.DescribeStackResources(ctx,
		&cloudformation.DescribeStackResourcesInput{PhysicalResourceId: &s.name})
	if isMissing(err) {
		return nil
	}

	if err != nil {
		return err
	}

	// CloudFormation returns all resources of the stack that has the physical
	// ID.
	for _, r := range out.StackResources {
		if aws.ToString(r.PhysicalResourceId) == s.name && aws.ToString(r.ResourceType) == "AWS::DynamoDB::Table" {
			return s.refuseTable(fmt.Sprintf("it belongs to stack %s; delete it there", aws.ToString(r.StackName)))
		}
	}

	return nil
}

// checkPrepared refuses a table that has items but no version record: it may belong
// to another program. An empty table may be the rest of a failed creation.
func (s *session) checkPrepared(ctx context.Context) error {
	repo, err := s.table(ctx)
	if err != nil {
		return err
	}

	// With a version record the table is known, and the error is nil.
	_, err = repo.Version(ctx)
	if err := errors.Join(err, repo.Close()); !errors.Is(err, limiter.ErrNotFound) {
		return err
	}

	out, err := s.tables.Scan(ctx, &dynamodb.ScanInput{TableName: &s.name, Limit: aws.Int32(1)})
	if err != nil || len(out.Items) == 0 {
		return err
	}

	migrate := s.remedy(remedy.MigrateTable, s.name)
	return s.refuseTable("it has items but no version record, so it may belong to another program; if its "+
		"data predate version records, "+migrate.Error()+" creates one", migrate)
}

const tableDeletionTimeout = 5 * time.Minute

// dropTable deletes the table and waits for the end.
func (s *session) dropTable(ctx context.Context) error {
	_, err := s.tables.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &s.name})
	if is[*ddb.ResourceNotFoundException](err) {
		return nil
	}

	if err != nil {
		return err
	}

	waiter := dynamodb.NewTableNotExistsWaiter(s.tables, func(o *dynamodb.TableNotExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second
	})
	return waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.name}, tableDeletionTimeout)
}
