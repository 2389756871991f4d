package moto

import (
	"net/http"
	"os"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/engine"
)

// TestServerServesUntilStopped requests a page that only moto serves.
func TestServerServesUntilStopped(t *testing.T) {
	if os.Getenv(EndpointVariable) != "" {
		t.Skip("Stop does not stop a server that Start did not start")
	}
	s, err := Start()
	engine.Require(t, err)
	page := s.URL() + "/moto-api/data.json"
	code, err := get(t, page)
	if err != nil || code != http.StatusOK {
		t.Errorf("%s: %d, %v", page, code, err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if code, err := get(t, page); err == nil {
		t.Errorf("after Stop: %d", code)
	}
}

func get(t *testing.T, url string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
