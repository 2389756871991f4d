package infra

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// DeleteOptions are those of [Delete]. The zero value of a field is its default.
type DeleteOptions struct {
	Options Options // those of every call
	// DeleteArchive deletes also the bucket with archived audit events. Default:
	// it stays, unless it is empty.
	DeleteArchive bool
	// Confirm sees what would be deleted, before it is. An error refuses it, and
	// is returned. Default: it is deleted.
	Confirm func(Removal) error
}

// Removal is what Delete is about to do, or has done.
type Removal struct {
	Name    string `json:"name"`
	Region  string `json:"region"`
	Existed bool   `json:"existed"` // there was a stack
	Items   int64  `json:"items"`   // about how many the table holds
	// Archive is the bucket with archived audit events; "" if there is none, or
	// it is empty. ArchiveKept tells whether it stays, for its owner to delete.
	Archive     string `json:"archive"`
	ArchiveKept bool   `json:"archive_kept"`
	Artifacts   string `json:"artifacts"` // the bucket with the functions' code that was removed; "" if there was none
	Complete    bool   `json:"complete"`  // nothing is left to be done; with NoWait another call has to do it
}

// Delete removes a stack with its table and everything in it, and the bucket of
// its functions' code. A stack that is missing counts as deleted.
//
// Errors are those of Deploy. It is refused while the table or the stack is
// protected.
func Delete(ctx context.Context, name string, opts *DeleteOptions) (Removal, error) {
	if opts == nil {
		opts = &DeleteOptions{}
	}
	s, err := dial(ctx, "delete", name, &opts.Options)
	if err != nil {
		return Removal{}, err
	}
	r, err := s.delete(ctx, opts)
	return r, failure(ctx, "delete", err)
}

func (s *session) delete(ctx context.Context, opts *DeleteOptions) (Removal, error) {
	r := Removal{Name: s.name, Region: s.region}
	var codeBucket, id string
	for range maxRounds {
		stack, err := s.find(ctx)
		if err != nil {
			return r, err
		}
		state := stateOf(stack)
		if state != missing && id != "" && *stack.StackId != id { // somebody has deployed again, and uses the bucket
			r.Complete = true
			return r, nil
		}
		if state == missing {
			r.Artifacts, err = s.removeOwnBucket(ctx, codeBucket)
			r.Complete = err == nil
			return r, err
		}
		r.Existed, id = true, *stack.StackId
		codeBucket, _ = parameterOf(*stack, paramCodeBucket)
		if err := s.checkOwner(ctx, stack); err != nil {
			return r, err
		}
		switch {
		case state == leaving && s.opts.NoWait:
			s.dropEmptyArchive(ctx, stack)
			return r, nil
		case state == busy && s.opts.NoWait:
			return r, s.refuse(stack, "something is being done with it; delete it when that has ended")
		case state == leaving:
			s.dropEmptyArchive(ctx, stack)
			err = s.await(ctx, stack)
		case state == busy:
			err = s.await(ctx, stack)
		default:
			err = s.remove(ctx, stack, opts, &r)
			if err == nil && s.opts.NoWait {
				return r, nil
			}
		}
		if err != nil && !isRace(err) {
			return r, err
		}
	}
	return r, s.contended()
}

// remove deletes a stack that is at rest.
func (s *session) remove(ctx context.Context, stack *cfn.Stack, opts *DeleteOptions, r *Removal) error {
	if err := s.checkProtection(ctx, stack, r); err != nil {
		return err
	}
	archive, used, err := s.findArchive(ctx, stack)
	if err != nil {
		return err
	}
	if used {
		r.Archive, r.ArchiveKept = archive, !opts.DeleteArchive
	}
	if opts.Confirm != nil {
		if err := opts.Confirm(*r); err != nil {
			return &confirmError{err}
		}
	}
	if used && opts.DeleteArchive {
		if err := s.deleteArchive(ctx, archive); err != nil {
			return err
		}
	}
	err = s.deleteStack(ctx, stack, nil)
	if failed, ok := errors.AsType[*FailedError](err); ok && r.ArchiveKept && onlyArchive(failed) {
		err = s.deleteStack(ctx, stack, []string{archiveResource})
	}
	return err
}

// deleteStack waits for the end, unless nobody wants to. What is in retained is
// no longer the stack's; that is possible only after a delete that failed.
func (s *session) deleteStack(ctx context.Context, stack *cfn.Stack, retained []string) error {
	j, err := s.journalFrom(ctx, *stack.StackId)
	if err != nil {
		return err
	}
	_, err = s.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{
		StackName: stack.StackId, RetainResources: retained, ClientRequestToken: aws.String("zae-limiter-" + rand.Text()),
	})
	if err != nil {
		return s.orInterrupted(ctx, opDelete, err)
	}
	s.dropEmptyArchive(ctx, stack)
	if s.opts.NoWait {
		return nil
	}
	after, err := j.settle(ctx, opDelete)
	if err != nil || stateOf(after) == missing {
		return err
	}
	return j.failed(opDelete, string(after.StackStatus))
}

// archiveResource is the bucket for archived audit events in the template.
const archiveResource = "AuditArchiveBucket"

func onlyArchive(failed *FailedError) bool {
	return len(failed.Events) > 0 && !slices.ContainsFunc(failed.Events, func(e Event) bool {
		return e.Resource != archiveResource && e.Resource != failed.Stack
	})
}

// checkProtection refuses what would fail half-way.
func (s *session) checkProtection(ctx context.Context, stack *cfn.Stack, r *Removal) error {
	if aws.ToBool(stack.EnableTerminationProtection) {
		off := s.place.AWS("cloudformation", "update-termination-protection", "--no-enable-termination-protection", "--stack-name", s.name)
		return s.refuse(stack, "it is protected; switch that off with "+off+", and delete it again")
	}
	table, err := s.resource(ctx, stack, tableResource)
	if err != nil || table == "" {
		return err
	}
	out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if errorCode(err) == "ResourceNotFoundException" {
		return nil
	}
	if err != nil {
		return err
	}
	if aws.ToBool(out.Table.DeletionProtectionEnabled) {
		off := s.place.Command("deploy", "--name", s.name, "--no-deletion-protection")
		if stateOf(stack) != stable {
			off = s.unprotect(table)
		}
		return s.refuse(stack, "its table is protected; switch that off with "+off+", and delete it again")
	}
	r.Items = aws.ToInt64(out.Table.ItemCount)
	return nil
}

// unprotect is the command that lets a table be deleted.
func (s *session) unprotect(table string) string {
	return s.place.AWS("dynamodb", "update-table", "--no-deletion-protection-enabled", "--table-name", table)
}

// resource is the name in the account of a resource of a stack, "" if it has
// none by that name, or none any more.
func (s *session) resource(ctx context.Context, stack *cfn.Stack, logical string) (string, error) {
	out, err := s.stacks.DescribeStackResource(ctx, &cloudformation.DescribeStackResourceInput{
		StackName: stack.StackId, LogicalResourceId: &logical,
	})
	if isMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if out.StackResourceDetail == nil || out.StackResourceDetail.ResourceStatus == cfn.ResourceStatusDeleteComplete {
		return "", nil
	}
	return aws.ToString(out.StackResourceDetail.PhysicalResourceId), nil
}

// findArchive is the stack's bucket with archived audit events, "" for none, and
// whether anything is in it.
func (s *session) findArchive(ctx context.Context, stack *cfn.Stack) (bucket string, used bool, err error) {
	bucket, err = s.resource(ctx, stack, archiveResource)
	if err != nil || bucket == "" {
		return "", false, err
	}
	used, err = s.hasObjects(ctx, bucket, nil)
	switch {
	case httpStatus(err) == 404:
		return "", false, nil
	case isDenied(err): // who may not look has to expect something in it
		return bucket, true, nil
	}
	return bucket, used, err
}

// dropEmptyArchive deletes the archive of a stack that is being deleted, if
// nothing is in it: where the template keeps it, an empty bucket would be all
// that is left. That it fails is no reason to stop.
func (s *session) dropEmptyArchive(ctx context.Context, stack *cfn.Stack) {
	if bucket, used, err := s.findArchive(ctx, stack); err == nil && bucket != "" && !used {
		_, _ = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	}
}

// deleteArchive comes before the stack is deleted: afterwards nobody would know
// the bucket's name.
func (s *session) deleteArchive(ctx context.Context, bucket string) error {
	err := s.emptyBucket(ctx, bucket, nil)
	if err == nil {
		_, err = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	}
	if unlessGone(err) == nil {
		return nil
	}
	return fmt.Errorf("bucket %s with archived audit events cannot be deleted: %w", bucket, err)
}
