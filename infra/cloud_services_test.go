package infra_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"
)

type bucket struct {
	objects   map[string][]byte
	tags      map[string]string
	blocked   bool
	encrypted bool
	foreign   bool // of another account
}

func bucketOp(method string, asked *cloudCall) string {
	for _, sub := range []struct{ query, name string }{
		{"publicAccessBlock", "PublicAccessBlock"}, {"encryption", "BucketEncryption"}, {"tagging", "BucketTagging"},
	} {
		if asked.query.Has(sub.query) {
			return map[string]string{"PUT": "Put", "GET": "Get"}[method] + sub.name
		}
	}
	switch {
	case asked.query.Has("versions"):
		return "ListObjectVersions"
	case asked.query.Has("list-type"):
		return "ListObjectsV2"
	case asked.query.Has("delete"):
		return "DeleteObjects"
	}
	kind := "Object"
	if asked.key == "" {
		kind = "Bucket"
	}
	verb := map[string]string{"PUT": "Put", "HEAD": "Head", "GET": "Get", "DELETE": "Delete"}[method]
	if kind == "Bucket" && verb == "Put" {
		verb = "Create"
	}
	return verb + kind
}

func (c *cloud) store(asked *cloudCall) *reply {
	b := c.buckets[asked.bucket]
	if asked.op == "CreateBucket" {
		return c.createBucket(asked, b)
	}
	if b == nil {
		return failed(asked, 404, "NoSuchBucket", "The specified bucket does not exist")
	}
	if owner := asked.header.Get("X-Amz-Expected-Bucket-Owner"); b.foreign || owner != "" && owner != accountID {
		return failed(asked, 403, "AccessDenied", "Access Denied")
	}
	switch asked.op {
	case "HeadBucket":
		return &reply{200, map[string]string{"X-Amz-Bucket-Region": region}, nil}
	case "PutPublicAccessBlock":
		b.blocked = bytes.Count(asked.body, []byte(">true<")) == 4
	case "PutBucketEncryption":
		b.encrypted = bytes.Contains(asked.body, []byte("AES256"))
	case "PutBucketTagging", "GetBucketTagging":
		return c.bucketTags(asked, b)
	case "HeadObject":
		if _, ok := b.objects[asked.key]; !ok {
			return failed(asked, 404, "NotFound", "")
		}
	case "PutObject":
		b.objects[asked.key] = asked.body
	case "DeleteObjects":
		clear(b.objects)
		return xmlReply(200, "<DeleteResult></DeleteResult>")
	case "ListObjectsV2", "ListObjectVersions":
		return c.listObjects(asked, b)
	case "DeleteBucket":
		if len(b.objects) > 0 {
			return failed(asked, 409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
		}
		delete(c.buckets, asked.bucket)
		return xmlReply(204, "")
	default:
		c.tb.Errorf("nobody answers %s", asked.op)
	}
	return xmlReply(200, "")
}

func (c *cloud) createBucket(asked *cloudCall, b *bucket) *reply {
	switch {
	case b != nil && b.foreign:
		return failed(asked, 409, "BucketAlreadyExists", "The requested bucket name is not available")
	case b != nil:
		return failed(asked, 409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded")
	case !bytes.Contains(asked.body, []byte(region)):
		return failed(asked, 400, "IllegalLocationConstraintException", "The unspecified location constraint is incompatible")
	}
	c.buckets[asked.bucket] = &bucket{objects: map[string][]byte{}}
	return xmlReply(200, "")
}

type tagging struct {
	XMLName xml.Name    `xml:"Tagging"`
	Tags    []bucketTag `xml:"TagSet>Tag"`
}

type bucketTag struct{ Key, Value string }

func (c *cloud) bucketTags(asked *cloudCall, b *bucket) *reply {
	var list tagging
	if asked.op == "PutBucketTagging" {
		if err := xml.Unmarshal(asked.body, &list); err != nil {
			c.tb.Error(err)
		}
		b.tags = map[string]string{}
		for _, tag := range list.Tags {
			b.tags[tag.Key] = tag.Value
		}
		return xmlReply(204, "")
	}
	if b.tags == nil {
		return failed(asked, 404, "NoSuchTagSet", "The TagSet does not exist")
	}
	for _, key := range slices.Sorted(maps.Keys(b.tags)) {
		list.Tags = append(list.Tags, bucketTag{key, b.tags[key]})
	}
	text, err := xml.Marshal(list)
	if err != nil {
		c.tb.Error(err)
	}
	return xmlReply(200, string(text))
}

func (c *cloud) listObjects(asked *cloudCall, b *bucket) *reply {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if asked.op == "ListObjectsV2" {
			text += "<Contents><Key>" + escaped(key) + "</Key></Contents>"
		} else {
			text += "<Version><Key>" + escaped(key) + "</Key><VersionId>null</VersionId></Version>"
		}
	}
	return xmlReply(200, "<ListResult>"+text+"</ListResult>")
}

func (c *cloud) table(asked *cloudCall) *reply {
	if asked.op == "DescribeContinuousBackups" { // which the engine does not know
		return &reply{200, nil, []byte(`{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED","PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"ENABLED","RecoveryPeriodInDays":7}}}`)}
	}
	return c.forward(asked)
}

func (c *cloud) function(asked *cloudCall) *reply {
	if asked.op == "ListEventSourceMappings" {
		return &reply{200, nil, []byte(`{"EventSourceMappings":[` + c.mappings + `]}`)}
	}
	found, ok := c.functions[asked.key]
	if !ok {
		return failed(asked, 404, "ResourceNotFoundException", "Function not found: "+asked.key)
	}
	return &reply{200, nil, []byte(found)}
}

func (c *cloud) queue(asked *cloudCall) *reply {
	var in struct{ QueueUrl string }
	if err := json.Unmarshal(asked.body, &in); err != nil || !strings.HasSuffix(in.QueueUrl, "-aggregator-dlq") {
		return failed(asked, 400, "QueueDoesNotExist", in.QueueUrl)
	}
	return &reply{200, nil, []byte(`{"Attributes":{"ApproximateNumberOfMessages":"` + c.messages + `"}}`)}
}

type cloudAlarm struct{ name, state, reason string }

func (c *cloud) alarm(asked *cloudCall) *reply {
	list := cbor.List{}
	for _, a := range c.alarms {
		if bytes.Contains(asked.body, []byte(a.name)) {
			list = append(list, cbor.Map{"AlarmName": cbor.String(a.name), "StateValue": cbor.String(a.state), "StateReason": cbor.String(a.reason)})
		}
	}
	return &reply{200, cborHeader(), cbor.Encode(cbor.Map{"MetricAlarms": list})}
}

func cborHeader() map[string]string {
	return map[string]string{"Content-Type": "application/cbor", "Smithy-Protocol": "rpc-v2-cbor"}
}

func cborReply(status int, members map[string]string) *reply {
	m := cbor.Map{}
	for name, value := range members {
		m[name] = cbor.String(value)
	}
	return &reply{status, cborHeader(), cbor.Encode(m)}
}

// functionZip is a package that nobody will run.
func functionZip(tb testing.TB, more ...byte) string {
	tb.Helper()
	return functionZipFor(tb, elf.EM_AARCH64, more...)
}

func functionZipFor(tb testing.TB, machine elf.Machine, more ...byte) string {
	tb.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Phoff: 64}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var content, buf bytes.Buffer
	must(tb, binary.Write(&content, binary.LittleEndian, header))
	content.Write(more)
	w := zip.NewWriter(&buf)
	file := &zip.FileHeader{Name: "bootstrap"}
	file.SetMode(0o755)
	entry, err := w.CreateHeader(file)
	must(tb, err)
	_, err = entry.Write(content.Bytes())
	must(tb, err)
	must(tb, w.Close())
	path := filepath.Join(tb.TempDir(), "function.zip")
	must(tb, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
