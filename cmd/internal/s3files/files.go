// Package s3files stores the files of an archive in an S3 bucket.
package s3files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// Files implements [aggregator.Files] with the objects of a bucket under a prefix.
// The version of a file is its ETag, so that writers do not overwrite each other.
type Files struct {
	client         *s3.Client
	bucket, prefix string
}

var _ aggregator.Files = (*Files)(nil)

// Scheme is the scheme of a bucket's URL.
const Scheme = "s3://"

// Open returns the files at a URL such as "s3://bucket/prefix". An empty region
// means that of the environment. Open sends no request to S3.
func Open(ctx context.Context, url, region string) (*Files, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(url, Scheme), "/")
	if !strings.HasPrefix(url, Scheme) || bucket == "" {
		return nil, fmt.Errorf("%q: no bucket; use a URL such as s3://my-bucket/limits", url)
	}

	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}

	// The default logger prints to stderr, which a library must not.
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if region != "" {
		opts = append(opts, config.WithRegion(region))
	}

	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, err
	}

	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		// Emulators do not resolve the host names of buckets.
		o.UsePathStyle = o.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true
	})

	return &Files{client, bucket, prefix}, nil
}

// Read reads a file. It returns fs.ErrNotExist if there is none.
func (f *Files) Read(ctx context.Context, name string) (content []byte, version string, err error) {
	out, err := f.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &f.bucket, Key: aws.String(f.prefix + name)})

	// S3 returns this code only to a caller that may list the bucket. Otherwise
	// a missing object looks like a forbidden one.
	if _, none := errors.AsType[*types.NoSuchKey](err); none {
		return nil, "", fs.ErrNotExist
	}
	if err != nil {
		return nil, "", err
	}

	defer func() { err = errors.Join(err, out.Body.Close()) }()
	content, err = io.ReadAll(out.Body)
	return content, aws.ToString(out.ETag), err
}

// Write writes a file if the stored one has the given version. An empty version
// means that there is none. It returns aggregator.ErrChanged otherwise.
func (f *Files) Write(ctx context.Context, name, version string, content []byte) error {
	in := &s3.PutObjectInput{
		Bucket: &f.bucket, Key: aws.String(f.prefix + name), Body: bytes.NewReader(content),
		ContentType: aws.String("application/x-ndjson"), ContentEncoding: aws.String("gzip"),
	}

	if version == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &version
	}

	_, err := f.client.PutObject(ctx, in)
	if isChanged(err) {
		return aggregator.ErrChanged
	}
	return err
}

// isChanged reports whether a write was refused because the object has another
// version, was deleted, or is being written.
func isChanged(err error) bool {
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok &&

		e.HTTPStatusCode() == http.StatusPreconditionFailed {
		return true
	}

	// S3 answers NoSuchKey if the object was deleted since it was read, and
	// ConditionalRequestConflict while another write of it runs.
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && (e.ErrorCode() == "ConditionalRequestConflict" || e.ErrorCode() == "NoSuchKey")
}
