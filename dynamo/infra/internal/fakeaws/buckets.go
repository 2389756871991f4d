package fakeaws

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
)

// Bucket is an S3 bucket.
type Bucket struct {
	Objects   map[string][]byte
	Tags      map[string]string
	Blocked   bool // public access is blocked
	Encrypted bool
	Foreign   bool // it belongs to another account
}

// bucketOp returns the operation of a request to S3.
func bucketOp(method string, r *Request) string {
	// The SDK names each operation on a part of a bucket by a parameter of the
	// query.
	for _, sub := range []struct{ query, name string }{
		{"publicAccessBlock", "PublicAccessBlock"}, {"encryption", "BucketEncryption"}, {"tagging", "BucketTagging"},
	} {
		if r.Query.Has(sub.query) {
			return map[string]string{"PUT": "Put", "GET": "Get"}[method] + sub.name
		}
	}

	switch {
	case r.Query.Has("versions"):
		return "ListObjectVersions"
	case r.Query.Has("list-type"):
		return "ListObjectsV2"
	case r.Query.Has("delete"):
		return "DeleteObjects"
	}

	kind := "Object"
	if r.Key == "" {
		kind = "Bucket"
	}

	verb := map[string]string{"PUT": "Put", "HEAD": "Head", "GET": "Get", "DELETE": "Delete"}[method]
	if kind == "Bucket" && verb == "Put" {
		verb = "Create"
	}

	return verb + kind
}

// serveBucket answers S3.
func (c *Cloud) serveBucket(r *Request) *Reply {
	b := c.Buckets[r.Bucket]
	if r.Op == "CreateBucket" {
		return c.createBucket(r, b)
	}

	if b == nil {
		return ErrorReply(r, 404, "NoSuchBucket", "The specified bucket does not exist")
	}

	if owner := r.Header.Get("X-Amz-Expected-Bucket-Owner"); b.Foreign || owner != "" && owner != AccountID {
		return ErrorReply(r, 403, "AccessDenied", "Access Denied")
	}

	switch r.Op {
	case "HeadBucket":
		return &Reply{200, map[string]string{"X-Amz-Bucket-Region": Region}, nil}
	case "PutPublicAccessBlock":
		// The four settings of the block are elements with the value true.
		b.Blocked = bytes.Count(r.Body, []byte(">true<")) == 4
	case "PutBucketEncryption":
		b.Encrypted = bytes.Contains(r.Body, []byte("AES256"))
	case "PutBucketTagging", "GetBucketTagging":
		return c.serveBucketTags(r, b)
	case "HeadObject":
		if _, ok := b.Objects[r.Key]; !ok {
			return ErrorReply(r, 404, "NotFound", "")
		}
	case "PutObject":
		b.Objects[r.Key] = r.Body
	case "DeleteObjects":
		// The tests delete all objects or none.
		clear(b.Objects)
		return xmlReply(200, "<DeleteResult></DeleteResult>")
	case "ListObjectsV2", "ListObjectVersions":
		return c.listObjects(r, b)
	case "DeleteBucket":
		if len(b.Objects) > 0 {
			return ErrorReply(r, 409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
		}
		delete(c.Buckets, r.Bucket)
		return xmlReply(204, "")
	default:
		c.tb.Errorf("no handler for %s", r.Op)
	}

	return xmlReply(200, "")
}

func (c *Cloud) createBucket(r *Request, b *Bucket) *Reply {
	switch {
	case b != nil && b.Foreign:
		return ErrorReply(r, 409, "BucketAlreadyExists", "The requested bucket name is not available")
	case b != nil:
		return ErrorReply(r, 409, "BucketAlreadyOwnedByYou",
			"Your previous request to create the named bucket succeeded")
	// Outside of us-east-1, S3 requires the region as a constraint.
	case !bytes.Contains(r.Body, []byte(Region)):
		return ErrorReply(r, 400, "IllegalLocationConstraintException",
			"The unspecified location constraint is incompatible")
	}

	c.Buckets[r.Bucket] = &Bucket{Objects: map[string][]byte{}}
	return xmlReply(200, "")
}

type tagging struct {
	XMLName xml.Name    `xml:"Tagging"`
	Tags    []bucketTag `xml:"TagSet>Tag"`
}

type bucketTag struct{ Key, Value string }

// serveBucketTags answers PutBucketTagging and GetBucketTagging.
func (c *Cloud) serveBucketTags(r *Request, b *Bucket) *Reply {
	var list tagging
	if r.Op == "PutBucketTagging" {
		if err := xml.Unmarshal(r.Body, &list); err != nil {
			c.tb.Error(err)
		}

		b.Tags = map[string]string{}
		for _, tag := range list.Tags {
			b.Tags[tag.Key] = tag.Value
		}
		return xmlReply(204, "")
	}

	// S3 has an error, not an empty list, for a bucket that was never tagged.
	if b.Tags == nil {
		return ErrorReply(r, 404, "NoSuchTagSet", "The TagSet does not exist")
	}

	for _, key := range slices.Sorted(maps.Keys(b.Tags)) {
		list.Tags = append(list.Tags, bucketTag{key, b.Tags[key]})
	}

	text, err := xml.Marshal(list)
	if err != nil {
		c.tb.Error(err)
	}

	return xmlReply(200, string(text))
}

func (c *Cloud) listObjects(r *Request, b *Bucket) *Reply {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(b.Objects)) {
		if r.Op == "ListObjectsV2" {
			text += "<Contents><Key>" + escapeXML(key) + "</Key></Contents>"
		} else {
			text += "<Version><Key>" + escapeXML(key) + "</Key><VersionId>null</VersionId></Version>"
		}
	}
	return xmlReply(200, "<ListResult>"+text+"</ListResult>")
}
