package infra_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func TestTaskAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"DockerId":"x","Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.106"]}]}`: "10.0.2.106",
		`{"DockerId":"x","Networks":[]}`: "!the metadata of the task has no IPv4 address",
		`none`:                           "!read the metadata of the task: 200 OK",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		}))
		got, err := infra.TaskAddress(t.Context(), server.URL+"/v4/x")
		server.Close()
		if reason, fails := strings.CutPrefix(want, "!"); fails {
			if err == nil || !strings.HasPrefix(err.Error(), reason) {
				t.Errorf("%s: %v; want %s", text, err, reason)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	if _, err := infra.TaskAddress(t.Context(), ""); err == nil {
		t.Error("an empty URL has an address")
	}
}
