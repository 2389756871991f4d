package infra

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// removeOwnBucket removes the stack's bucket and returns its name, "" if there
// was none. used is the bucket that the stack had its code from, as far as is
// known: only about that one it is an error not to find out whose it is.
func (s *session) removeOwnBucket(ctx context.Context, used string) (string, error) {
	bucket, account, err := s.ownBucket(ctx)
	if err != nil {
		return "", err
	}
	tags, err := s.ownBucketTags(ctx, bucket, account)
	switch {
	case is[*RefusedError](err) && bucket != used:
		return "", nil
	case err != nil || tags == nil:
		return "", err
	}
	if err := s.emptyBucket(ctx, bucket, &account); err != nil {
		return "", fmt.Errorf("bucket %s, which held the functions' code, is still there: %w", bucket, err)
	}
	_, err = s.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket, ExpectedBucketOwner: &account})
	if unlessGone(err) != nil {
		return "", fmt.Errorf("bucket %s, which held the functions' code, is still there: %w", bucket, err)
	}
	return bucket, nil
}

// unlessGone is an error about a bucket that is there.
func unlessGone(err error) error {
	if httpStatus(err) == 404 {
		return nil
	}
	return err
}

// emptyBucket deletes every object in every version: somebody may have switched
// versions on.
func (s *session) emptyBucket(ctx context.Context, bucket string, owner *string) error {
	pages := s3.NewListObjectVersionsPaginator(s.buckets, &s3.ListObjectVersionsInput{Bucket: &bucket, ExpectedBucketOwner: owner})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
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

func (s *session) deleteObjects(ctx context.Context, bucket string, owner *string, all []s3types.ObjectIdentifier) error {
	if len(all) == 0 {
		return nil
	}
	out, err := s.buckets.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &bucket, ExpectedBucketOwner: owner, Delete: &s3types.Delete{Objects: all, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return err
	}
	if len(out.Errors) > 0 {
		first := out.Errors[0]
		return fmt.Errorf("%d objects cannot be deleted, such as %s: %s", len(out.Errors), aws.ToString(first.Key), aws.ToString(first.Message))
	}
	return nil
}
