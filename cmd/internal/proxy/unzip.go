package proxy

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// isStream reports whether an answer is a stream of events.
func isStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(h.Get("Content-Type"))), "text/event-stream")
}

// encodingOf returns how an answer is compressed, or "" for a plain one.
func encodingOf(h http.Header) string {
	switch encoding := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding"))); encoding {
	case "identity":
		return ""
	case "x-gzip":
		return "gzip"
	default:
		return encoding
	}
}

// decompress makes an answer plain. An upstream may compress although it was asked
// not to, and every client understands a plain answer.
func decompress(resp *http.Response) {
	resp.Body = &unzipped{inner: resp.Body}
	resp.Header.Del("Content-Encoding")
	forgetLength(resp)
}

// forgetLength prepares for an answer of another length.
func forgetLength(resp *http.Response) {
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
}

// unzipped decompresses an answer as it arrives. It reads the gzip header with the
// first Read, since gzip.NewReader would wait for the start of the answer.
type unzipped struct {
	inner io.ReadCloser
	zip   *gzip.Reader
}

// Read reads the decompressed answer.
func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil {
		zip, err := gzip.NewReader(u.inner)
		if err != nil {
			return 0, err
		}
		u.zip = zip
	}

	return u.zip.Read(p)
}

// Close ends the answer.
func (u *unzipped) Close() error { return u.inner.Close() }
