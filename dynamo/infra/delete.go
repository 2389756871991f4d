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

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// DeleteOptions configures [Delete]. The zero value of a field is its default.
type DeleteOptions struct {
	Options Options
	// DeleteArchive also deletes the bucket with archived audit events. Default:
	// the bucket is kept, unless it is empty.
	DeleteArchive bool
	// Confirm, if not nil, is called before anything is deleted. If it returns an
	// error, Delete returns that error and deletes nothing.
	Confirm func(Removal) error
}

// Removal describes what Delete is about to do, or has done.
type Removal struct {
	Name    string `json:"name" doc:"name of the stack and its table"`
	Region  string `json:"region" doc:"AWS region"`
	Existed bool   `json:"existed" doc:"whether the stack existed"`
	Items   int64  `json:"items" doc:"approximate number of items in the table"`
	// Archive is the bucket with archived audit events, or "" if it does not exist
	// or is empty. ArchiveKept reports whether Delete keeps it.
	Archive     string `json:"archive" doc:"bucket with archived audit events"`
	ArchiveKept bool   `json:"archive_kept" doc:"whether that bucket stays"`
	Artifacts   string `json:"artifacts" doc:"deleted bucket of the functions' code"`
	// Complete reports whether everything is deleted. With NoWait, another call has
	// to finish the deletion.
	Complete bool `json:"complete" doc:"whether nothing is left to delete"`
}

// Delete deletes a stack with its table and all data, and the bucket of its
// functions' code. It succeeds if there is no stack.
//
// It returns the errors of Deploy, and a *RefusedError if the table or the stack is
// protected.
func Delete(ctx context.Context, name string, opts *DeleteOptions) (Removal, error) {
	if opts == nil {
		opts = &DeleteOptions{}
	}
	s, err := newStackSession(ctx, "delete", name, &opts.Options)
	if err != nil {
		return Removal{}, err
	}
	r, err := s.delete(ctx, opts)
	return r, translateError(ctx, "delete", err)
}

// delete deletes the stack and the bucket of its code.
func (s *session) delete(ctx context.Context, opts *DeleteOptions) (Removal, error) {
	r := Removal{Name: s.name, Region: s.region}

	var codeBucket, id string
	for range maxRounds {
		stack, err := s.find(ctx)
		if err != nil {
			return r, err
		}

		state := stateOf(stack)
		// Another caller has deployed again, and that stack uses the bucket.
		if state != missing && id != "" && *stack.StackId != id {
			r.Complete = true
			return r, nil
		}

		if state == missing {
			r.Artifacts, err = s.removeOwnBucket(ctx, codeBucket)
			r.Complete = err == nil
			return r, err
		}

		// Only the stack has the name of the bucket. The round that finds the
		// stack deleted needs the name.
		r.Existed, id = true, *stack.StackId
		codeBucket, _ = parameterOf(*stack, paramCodeBucket)

		if err := s.checkOwner(ctx, stack); err != nil {
			return r, err
		}

		switch {
		case state == deleting && s.opts.NoWait:
			s.deleteEmptyArchive(ctx, stack)
			return r, nil
		case state == busy && s.opts.NoWait:
			return r, s.refuse(stack, "an operation is in progress; delete it when that has ended")
		case state == deleting:
			s.deleteEmptyArchive(ctx, stack)
			err = s.waitForOthers(ctx, stack)
		case state == busy:
			err = s.waitForOthers(ctx, stack)
		default:
			err = s.remove(ctx, stack, opts, &r)
			if err == nil && s.opts.NoWait {
				return r, nil
			}
		}

		// The next round acts on the state that another caller has left.
		if err != nil && !isRace(err) {
			return r, err
		}
	}

	return r, s.contended()
}

// remove deletes a stack without an operation in progress.
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
	// The template of the Python tool does not retain the archive, so the
	// deletion fails while it holds objects. CloudFormation accepts a list of
	// resources to retain only for a stack whose deletion has failed.
	if failed, ok := errors.AsType[*FailedError](err); ok && r.ArchiveKept && failedOnlyOnArchive(failed) {
		err = s.deleteStack(ctx, stack, []string{archiveResource})
	}

	return err
}

// deleteStack deletes the stack but its retained resources, and waits for the end
// unless NoWait is set. It can retain resources only after a failed deletion.
func (s *session) deleteStack(ctx context.Context, stack *cfn.Stack, retained []string) error {
	w, err := s.newWatcher(ctx, *stack.StackId)
	if err != nil {
		return err
	}

	_, err = s.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{
		StackName: stack.StackId, RetainResources: retained,
		ClientRequestToken: aws.String("zae-limiter-" + rand.Text()),
	})
	if err != nil {
		return s.startError(ctx, opDelete, err)
	}

	s.deleteEmptyArchive(ctx, stack)

	if s.opts.NoWait {
		return nil
	}

	after, err := w.wait(ctx, opDelete)
	if err != nil || stateOf(after) == missing {
		return err
	}

	return w.failedError(opDelete, string(after.StackStatus))
}

// archiveResource is the logical ID of the bucket for archived audit events.
const archiveResource = "AuditArchiveBucket"

// failedOnlyOnArchive reports whether only the archive could not be deleted.
func failedOnlyOnArchive(failed *FailedError) bool {
	// The failure of the stack itself follows from those of its resources.
	return len(failed.Events) > 0 && !slices.ContainsFunc(failed.Events, func(e Event) bool {
		return e.Resource != archiveResource && e.Resource != failed.Stack
	})
}

// checkProtection refuses to delete a protected stack or table, and sets the number
// of items.
func (s *session) checkProtection(ctx context.Context, stack *cfn.Stack, r *Removal) error {
	if err := s.checkTermination(stack); err != nil {
		return err
	}

	if err := s.checkNoLoad(ctx, stack); err != nil {
		return err
	}

	table, err := s.physicalID(ctx, stack, tableResource)
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
		off := s.remedy(remedy.DeployUnprotected, s.name)
		// Only a stable stack can be deployed, so a deployment cannot disable
		// the protection of another one.
		if stateOf(stack) != stable {
			off = s.remedy(remedy.UnprotectTable, table)
		}

		return s.refuse(stack, "its table is protected; disable the protection with "+off.Error()+
			", and delete it again", off)
	}

	r.Items = aws.ToInt64(out.Table.ItemCount)
	return nil
}

// checkTermination refuses to delete a protected stack.
func (s *session) checkTermination(stack *cfn.Stack) error {
	if !aws.ToBool(stack.EnableTerminationProtection) {
		return nil
	}
	off := s.remedy(remedy.UnprotectStack, s.name)
	return s.refuse(stack, "it is protected; disable the protection with "+off.Error()+", and delete it again", off)
}

// physicalID returns the physical ID of a resource of a stack, or "" if it does not
// exist.
func (s *session) physicalID(ctx context.Context, stack *cfn.Stack, logical string) (string, error) {
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

// findArchive returns the stack's bucket for archived audit events, or "", and
// whether it holds objects.
func (s *session) findArchive(ctx context.Context, stack *cfn.Stack) (bucket string, used bool, err error) {
	bucket, err = s.physicalID(ctx, stack, archiveResource)
	if err != nil || bucket == "" {
		return "", false, err
	}

	used, err = s.hasObjects(ctx, bucket, nil)
	switch {
	case httpStatus(err) == 404:
		return "", false, nil
	case isDenied(err):
		// Without permission to look, assume that it holds objects.
		return bucket, true, nil
	}

	return bucket, used, err
}

// deleteEmptyArchive deletes the archive of a stack that is being deleted, if it is
// empty: the template would keep it. It ignores errors.
func (s *session) deleteEmptyArchive(ctx context.Context, stack *cfn.Stack) {
	if s.kind == typeLoad {
		// A load stack has no archive.
		return
	}
	if bucket, used, err := s.findArchive(ctx, stack); err == nil && bucket != "" && !used {
		_, _ = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	}
}

// deleteArchive deletes the archive and its objects. It runs before the stack is
// deleted, because only the stack has the name of the bucket.
func (s *session) deleteArchive(ctx context.Context, bucket string) error {
	err := s.emptyBucket(ctx, bucket, nil)
	if err == nil {
		_, err = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	}
	if ignoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("bucket %s with archived audit events cannot be deleted: %w", bucket, err)
}
