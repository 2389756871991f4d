package programs

import (
	"context"
	"net/http"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
)

// TestMetricsOfTheProxyAreNotForPages asks for the metrics as Prometheus does, and as a
// web page does that rebinds its own name to this machine.
func TestMetricsOfTheProxyAreNotForPages(t *testing.T) {
	observer, err := otelsdk.Start(t.Context(), &otelsdk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &ProxyOptions{metrics: "127.0.0.1:0"}
	server, err := o.metricsServer(t.Context(), &backing{observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen.Run(running, nil, server) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	for host, want := range map[string]int{
		server.Addr().String(): http.StatusOK, "localhost": http.StatusOK, "page.example": http.StatusMisdirectedRequest,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("for host %s the status is %d, want %d", host, resp.StatusCode, want)
		}
	}
}
