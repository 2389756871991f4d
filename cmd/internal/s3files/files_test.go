package s3files_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/s3files"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/engine/s3"
)

func newServer(t *testing.T) *s3.Server {
	t.Helper()
	server := s3.Start()
	t.Cleanup(server.Stop)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL(), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test",
		"AWS_MAX_ATTEMPTS":      "1",
	} {
		t.Setenv(name, value)
	}
	return server
}

func TestFilesAreObjects(t *testing.T) {
	server := newServer(t)
	files, err := s3files.Open(t.Context(), "s3://my-bucket/some/prefix", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := files.Read(t.Context(), "a.gz"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	write := func(version, content string, want error) {
		t.Helper()
		if err := files.Write(t.Context(), "a.gz", version, []byte(content)); !errors.Is(err, want) {
			t.Fatalf("writing %q: %v; want %v", content, err, want)
		}
	}
	write(`"0"`, "of a version that was deleted", aggregator.ErrChanged)
	write("", "first", nil)
	write("", "again first", aggregator.ErrChanged)
	content, version, err := files.Read(t.Context(), "a.gz")
	if err != nil || string(content) != "first" {
		t.Fatalf("read %q, %v", content, err)
	}
	write(version, "\x1f\x8bsecond", nil)
	write(version, "third", aggregator.ErrChanged)
	if content, _, err = files.Read(t.Context(), "a.gz"); err != nil || string(content) != "\x1f\x8bsecond" {
		t.Errorf("read %q, %v: compressed files must not be unpacked", content, err)
	}
	const object = "/my-bucket/some/prefix/a.gz"
	if got := string(server.Objects()[object]); got != "\x1f\x8bsecond" {
		t.Errorf("the object is %q", got)
	}
	header := server.Header(object)
	if got := header.Get("Content-Type") + " " + header.Get("Content-Encoding"); got != "application/x-ndjson gzip" {
		t.Errorf("it is stored as %s", got)
	}
}

func TestAccessDenied(t *testing.T) {
	server := newServer(t)
	server.Refuse("AccessDenied")
	files, err := s3files.Open(t.Context(), "s3://my-bucket", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := files.Read(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := files.Write(t.Context(), "a", "", nil); err == nil || errors.Is(err, aggregator.ErrChanged) {
		t.Errorf("got %v", err)
	}
}

func TestInvalidURLs(t *testing.T) {
	for _, url := range []string{"", "s3://", "s3:///prefix", "bucket", "https://bucket"} {
		if _, err := s3files.Open(t.Context(), url, ""); err == nil {
			t.Errorf("%q is taken for a bucket", url)
		}
	}
}
