package infra

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// object is the location of an object in S3.
type object struct{ bucket, key string }

const maxBucketName = 63

const codePrefix, codeSuffix = "zae-limiter/", ".zip"

// codeKey returns the key of the package with that hash.
func codeKey(hash string) string { return codePrefix + hash + codeSuffix }

// artifactBucket returns the name of the bucket for a stack's code. It contains the
// account and region, because bucket names are global. A name of a stack that is too
// long or has capitals is shortened, and followed by its hash.
func artifactBucket(stack, account, region string) string {
	suffix := "-artifacts-" + account + "-" + region
	if name := stack + suffix; len(name) <= maxBucketName && name == strings.ToLower(name) {
		return name
	}

	// A hash of the whole name keeps two shortened names, or two that differ
	// only in case, from sharing a bucket.
	sum := sha256.Sum256([]byte(stack))
	suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
	return strings.ToLower(stack[:min(len(stack), maxBucketName-len(suffix))]) + suffix
}

// checkBucketName validates the name of a bucket. It accepts an empty name.
func checkBucketName(name string) error {
	if name == "" {
		return nil
	}

	allowed := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }
	// S3 rejects a name that reads as an IP address, because it could not be a
	// host name.
	isName := len(name) >= 3 && len(name) <= maxBucketName && net.ParseIP(name) == nil
	for label := range strings.SplitSeq(name, ".") {
		isName = isName && label == strings.Trim(label, "-") && label != "" && onlyRunes(label, allowed)
	}

	if !isName {
		return invalid("artifact bucket", name,
			"must be 3 to 63 lower-case letters, digits, hyphens or single dots, begin and end with a letter "+
				"or digit, and be no IP address")
	}
	return nil
}

// ownBucket returns the name of the stack's own bucket, and the account that must
// own it.
func (s *session) ownBucket(ctx context.Context) (bucket, account string, err error) {
	out, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", "", err
	}
	account = aws.ToString(out.Account)
	return artifactBucket(s.name, account, s.region), account, nil
}

// upload uploads a package to the bucket given, or to the stack's own, which it
// creates if necessary. It does not send a package that the bucket already has: the
// key contains the hash.
func (s *session) upload(ctx context.Context, given string, p *Package) (at object, sent bool, err error) {
	at = object{given, codeKey(p.SHA256)}

	// A bucket that the caller names may belong to another account, so only the
	// stack's own is checked for its owner.
	var owner *string
	if given == "" {
		bucket, account, err := s.ownBucket(ctx)
		if err != nil {
			return at, false, err
		}
		at.bucket, owner = bucket, &account
		if err := s.ensureBucket(ctx, bucket, account); err != nil {
			return at, false, err
		}
	} else if err := s.checkBucket(ctx, given); err != nil {
		return at, false, err
	}

	_, err = s.buckets.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: &at.bucket, Key: &at.key, ExpectedBucketOwner: owner,
	})
	if err == nil {
		return at, false, nil
	}

	// S3 answers 403 for a missing object if the caller may not list the
	// bucket. The caller may still be allowed to write.
	if status := httpStatus(err); status != 404 && status != 403 {
		return at, false, err
	}

	_, err = s.buckets.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &at.bucket, Key: &at.key, ExpectedBucketOwner: owner,
		Body: bytes.NewReader(p.Zip), ContentType: aws.String("application/zip"),
	})
	return at, err == nil, err
}

// checkBucket checks that an existing bucket is in the region.
func (s *session) checkBucket(ctx context.Context, bucket string) error {
	refuse := func(reason string) error { return invalid("artifact bucket", bucket, reason) }

	out, err := s.buckets.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket})
	// A response to HEAD has no body, and so no error code: the status has to
	// do.
	switch httpStatus(err) {
	case 301, 400:
		return refuse("must be in the stack's region, " + s.region)
	case 403:
		// The caller may still be allowed to write.
		return nil
	case 404:
		return refuse("must exist; leave it out to have one created")
	}

	if err != nil {
		return err
	}

	if found := aws.ToString(out.BucketRegion); found != "" && found != s.region {
		return refuse(fmt.Sprintf("must be in the stack's region, %s, and is in %s", s.region, found))
	}
	return nil
}

// ensureBucket creates the stack's bucket if it does not exist. It writes the tags
// last, so that a bucket without tags is known to be incomplete.
func (s *session) ensureBucket(ctx context.Context, bucket, account string) error {
	tags, err := s.ownBucketTags(ctx, bucket, account)
	// Tags that others have added stay.
	wanted := mergeTags(tags, s.bucketTags())
	switch {
	case err != nil || maps.Equal(tags, wanted):
		return err
	case len(tags) > 0:
		// The bucket is complete, because it has tags. Only their values
		// differ.
		return s.tagBucket(ctx, bucket, account, wanted)
	}

	in := &s3.CreateBucketInput{Bucket: &bucket}
	// S3 rejects its default, us-east-1, as a constraint.
	if s.region != "us-east-1" {
		in.CreateBucketConfiguration = &s3types.CreateBucketConfiguration{
			LocationConstraint: s3types.BucketLocationConstraint(s.region),
		}
	}

	// An interrupted call may have created the bucket, and left out the rest.
	if _, err := s.buckets.CreateBucket(ctx, in); err != nil && !is[*s3types.BucketAlreadyOwnedByYou](err) {
		return err
	}

	_, err = s.buckets.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
		Bucket: &bucket, ExpectedBucketOwner: &account,
		PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{
			BlockPublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(true), IgnorePublicAcls: aws.Bool(true),
			RestrictPublicBuckets: aws.Bool(true),
		},
	})
	if err != nil {
		return err
	}

	_, err = s.buckets.PutBucketEncryption(ctx, &s3.PutBucketEncryptionInput{
		Bucket: &bucket, ExpectedBucketOwner: &account,
		ServerSideEncryptionConfiguration: &s3types.ServerSideEncryptionConfiguration{
			Rules: []s3types.ServerSideEncryptionRule{{
				ApplyServerSideEncryptionByDefault: &s3types.ServerSideEncryptionByDefault{
					SSEAlgorithm: s3types.ServerSideEncryptionAes256,
				},
			}},
		},
	})
	if err != nil {
		return err
	}

	return s.tagBucket(ctx, bucket, account, wanted)
}

// bucketTags returns the tags for the stack's bucket.
func (s *session) bucketTags() map[string]string {
	return mergeTags(s.opts.Stack.Tags, s.discoveryTags())
}

// tagBucket replaces the tags of a bucket.
func (s *session) tagBucket(ctx context.Context, bucket, account string, wanted map[string]string) error {
	var tags []s3types.Tag
	for _, tag := range cfnTags(wanted) {
		tags = append(tags, s3types.Tag{Key: tag.Key, Value: tag.Value})
	}
	_, err := s.buckets.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{
		Bucket: &bucket, ExpectedBucketOwner: &account, Tagging: &s3types.Tagging{TagSet: tags},
	})
	return err
}

// ownBucketTags returns the tags of the stack's bucket, or nil if it does not exist.
// They are empty if the bucket is incomplete. It refuses a bucket of another owner,
// such as one with objects but without tags.
func (s *session) ownBucketTags(ctx context.Context, bucket, account string) (map[string]string, error) {
	refuse := func(reason string) (map[string]string, error) {
		return nil, &RefusedError{
			Stack:  s.name,
			Reason: fmt.Sprintf("bucket %s for the functions' code %s; choose another one", bucket, reason),
		}
	}

	// With an expected owner, S3 denies access to a bucket of any other
	// account.
	_, err := s.buckets.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket, ExpectedBucketOwner: &account})
	switch httpStatus(err) {
	case 404:
		return nil, nil
	case 403:
		return refuse("belongs to another account, or denies access")
	}

	if err != nil {
		return nil, err
	}

	out, err := s.buckets.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{
		Bucket: &bucket, ExpectedBucketOwner: &account,
	})

	// An interrupted call leaves a bucket without tags, and uploads nothing
	// before it has set them. Objects without tags are from another owner.
	if errorCode(err) == "NoSuchTagSet" {
		used, err := s.hasObjects(ctx, bucket, &account)
		if err == nil && used {
			return refuse("belongs to another owner")
		}
		return map[string]string{}, err
	}

	if err != nil {
		return nil, err
	}

	tags := map[string]string{}
	for _, tag := range out.TagSet {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}

	if tags[tagManagedBy] != manager || tags[tagName] != s.discoveryTags()[tagName] || tags[tagType] != s.kind {
		return refuse("belongs to another owner")
	}
	return tags, nil
}

// hasObjects reports whether a bucket has any object.
func (s *session) hasObjects(ctx context.Context, bucket string, owner *string) (bool, error) {
	out, err := s.buckets.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &bucket, ExpectedBucketOwner: owner, MaxKeys: aws.Int32(1),
	})
	if err != nil {
		return false, err
	}
	return len(out.Contents) > 0, nil
}

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
