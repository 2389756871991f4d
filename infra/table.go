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
)

// DeleteTableOptions configures [DeleteTable]. The zero value of a field is its
// default.
type DeleteTableOptions struct {
	Options Options // those of every call
	// Confirm sees what would be deleted, before it is. An error refuses it, and
	// is returned. Default: it is deleted.
	Confirm func(TableRemoval) error
}

// TableRemoval is what DeleteTable is about to do, or has done.
type TableRemoval struct {
	Name    string `json:"name" doc:"of the table"`
	Region  string `json:"region" doc:"it was in"`
	Existed bool   `json:"existed" doc:"there was a table"`
	Items   int64  `json:"items" doc:"about how many it held"`
}

// DeleteTable deletes a table that belongs to no stack, with everything in it,
// and returns once it is gone. A table that is missing counts as deleted.
//
// Errors: *RefusedError for a table that a stack owns, which [Delete] deletes
// with its stack, for a table that is protected, and for one that zae-limiter
// has not prepared and that holds something; *limiter.VersionError for a table of
// another program or of a newer version; *limiter.InvalidError for the name,
// before any call; *limiter.UnavailableError when AWS cannot be asked or refuses.
func DeleteTable(ctx context.Context, name string, opts *DeleteTableOptions) (TableRemoval, error) {
	if opts == nil {
		opts = &DeleteTableOptions{}
	}
	s, err := dial(ctx, "delete table", name, &opts.Options)
	if err != nil {
		return TableRemoval{}, err
	}
	r, err := s.deleteTable(ctx, opts)
	return r, failure(ctx, "delete table", err)
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
	if err := s.mayDelete(ctx, out.Table); err != nil {
		return r, err
	}
	if opts.Confirm != nil {
		if err := opts.Confirm(r); err != nil {
			return r, &confirmError{err}
		}
	}
	return r, s.dropTable(ctx)
}

// mayDelete returns why a table must stay, nil if it may go.
func (s *session) mayDelete(ctx context.Context, table *ddb.TableDescription) error {
	if err := s.checkUnowned(ctx); err != nil {
		return err
	}
	if aws.ToBool(table.DeletionProtectionEnabled) {
		return s.keepTable("it is protected; switch that off with " + s.unprotect(s.name) + ", and delete it again")
	}
	return s.checkPrepared(ctx)
}

func (s *session) keepTable(reason string) error { return &RefusedError{Table: s.name, Reason: reason} }

// checkUnowned refuses a table that a stack owns: the one of the same name, or
// any other. Where there is no CloudFormation no stack does.
func (s *session) checkUnowned(ctx context.Context) error {
	stack, err := s.find(ctx)
	if is[*noStacksError](err) {
		return nil
	}
	if err != nil {
		return err
	}
	if stateOf(stack) != missing {
		owned, err := s.resource(ctx, stack, tableResource)
		if err != nil {
			return err
		}
		if owned == s.name || tagsOf(*stack)[tagManagedBy] == manager {
			return s.keepTable(fmt.Sprintf("it belongs to stack %s (%s); %s deletes both", s.name, stack.StackStatus, s.place.Command("delete", "--name", s.name)))
		}
	}
	out, err := s.stacks.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{PhysicalResourceId: &s.name})
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range out.StackResources {
		if aws.ToString(r.PhysicalResourceId) == s.name && aws.ToString(r.ResourceType) == "AWS::DynamoDB::Table" {
			return s.keepTable(fmt.Sprintf("it belongs to stack %s; delete it there", aws.ToString(r.StackName)))
		}
	}
	return nil
}

// checkPrepared refuses a table that has items but no version record, which may
// be that of another program. One that is empty may have been left half made.
func (s *session) checkPrepared(ctx context.Context) error {
	repo, err := s.table(ctx)
	if err != nil {
		return err
	}
	_, err = repo.Version(ctx)
	if err := errors.Join(err, repo.Close()); !errors.Is(err, limiter.ErrNotFound) {
		return err
	}
	out, err := s.tables.Scan(ctx, &dynamodb.ScanInput{TableName: &s.name, Limit: aws.Int32(1)})
	if err != nil || len(out.Items) == 0 {
		return err
	}
	return s.keepTable("it holds items and no version record, so it may belong to another program; if its data are from before there were records, " +
		s.place.Command("table", "migrate", s.name) + " makes one")
}

const longestRemoval = 5 * time.Minute

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
	return waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.name}, longestRemoval)
}
