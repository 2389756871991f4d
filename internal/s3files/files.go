// Package s3files keeps the files of an archive in an S3 bucket.
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

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// Files are the objects of a bucket under a prefix. Their version is their ETag,
// so that writers do not overwrite each other.
type Files struct {
	client         *s3.Client
	bucket, prefix string
}

var _ aggregator.Files = (*Files)(nil)

// Scheme begins the address of files in a bucket.
const Scheme = "s3://"

// Open are the files at an address such as "s3://bucket/prefix". Region may be
// "": that of the environment. Nothing is read or written yet.
func Open(ctx context.Context, url, region string) (*Files, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(url, Scheme), "/")
	if !strings.HasPrefix(url, Scheme) || bucket == "" {
		return nil, fmt.Errorf("%q names no bucket; an address is such as s3://my-bucket/limits", url)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if region != "" {
		opts = append(opts, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // emulators know no names of buckets
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return &Files{client, bucket, prefix}, nil
}

// Read gets an object.
func (f *Files) Read(ctx context.Context, name string) (content []byte, version string, err error) {
	out, err := f.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &f.bucket, Key: aws.String(f.prefix + name)})
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

// Write puts an object, if the one there is of that version.
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
	if changed(err) {
		return aggregator.ErrChanged
	}
	return err
}

// changed tells whether a write was refused for what is there: another version,
// none any more, or one that is being written.
func changed(err error) bool {
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && e.HTTPStatusCode() == http.StatusPreconditionFailed {
		return true
	}
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && (e.ErrorCode() == "ConditionalRequestConflict" || e.ErrorCode() == "NoSuchKey")
}
