package infra

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// removeOwnBucket deletes the stack's bucket and returns its name, or "" if there is
// none. used is the bucket of the deployed code, if known; removeOwnBucket fails on a
// bucket of another owner only if that is used.
func (s *session) removeOwnBucket(ctx context.Context, used string) (string, error) {
	bucket, account, err := s.ownBucket(ctx)
	if err != nil {
		return "", err
	}

	tags, err := s.ownBucketTags(ctx, bucket, account)
	switch {
	// Another owner took the name. The stack never used that bucket, so nothing
	// of the stack is in it.
	case is[*RefusedError](err) && bucket != used:
		return "", nil
	case err != nil || tags == nil:
		return "", err
	}

	if err := s.emptyBucket(ctx, bucket, &account); err != nil {
		return "", fmt.Errorf("bucket %s of the functions' code could not be deleted: %w", bucket, err)
	}

	_, err = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket, ExpectedBucketOwner: &account})
	if ignoreNotFound(err) != nil {
		return "", fmt.Errorf("bucket %s of the functions' code could not be deleted: %w", bucket, err)
	}
	return bucket, nil
}

// ignoreNotFound returns err, or nil if the bucket does not exist.
func ignoreNotFound(err error) error {
	if httpStatus(err) == 404 {
		return nil
	}
	return err
}

// emptyBucket deletes all versions of all objects.
func (s *session) emptyBucket(ctx context.Context, bucket string, owner *string) error {
	pages := s3.NewListObjectVersionsPaginator(s.buckets, &s3.ListObjectVersionsInput{
		Bucket: &bucket, ExpectedBucketOwner: owner,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}

		// S3 deletes no bucket that still has old versions or delete markers.
		var all []s3types.ObjectIdentifier
		for _, v := range page.Versions {
			all = append(all, s3types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			all = append(all, s3types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}

		if err := s.deleteObjects(ctx, bucket, owner, all); err != nil {
			return err
		}
	}
	return nil
}

// deleteObjects deletes a page of objects.
func (s *session) deleteObjects(
	ctx context.Context, bucket string, owner *string, all []s3types.ObjectIdentifier,
) error {
	if len(all) == 0 {
		return nil
	}

	out, err := s.buckets.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &bucket, ExpectedBucketOwner: owner, Delete: &s3types.Delete{Objects: all, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return err
	}

	// S3 reports failures of single objects in a response that succeeds.
	if len(out.Errors) > 0 {
		first := out.Errors[0]
		return fmt.Errorf("%d objects could not be deleted, such as %s: %s", len(out.Errors),
			aws.ToString(first.Key), aws.ToString(first.Message))
	}
	return nil
}
