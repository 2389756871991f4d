package loadtest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a buffer that calls a function once it holds a text.
type lockedBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	want  string
	found func()
}

func (b *lockedBuffer) on(text string, call func()) { b.want, b.found = text, call }

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	if b.found != nil && strings.Contains(b.text.String(), b.want) {
		b.found()
	}
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newMetadata returns the URL of the metadata of a container with an address.
func newMetadata(t *testing.T, address string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["`+address+`"]}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v4/1"
}
