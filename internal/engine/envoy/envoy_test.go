package envoy

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/engine"
)

const config = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
    - name: front
      address: {socket_address: {address: 127.0.0.1, port_value: 0}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.echo
              typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}
`

func TestEnvoyServesUntilStopped(t *testing.T) {
	e, err := Start(config)
	engine.Require(t, err)
	addr := e.Addr("front")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Errorf("listener %q: %v", addr, err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if other := e.Addr("other"); other != "" {
		t.Errorf("a listener of no name at %s", other)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr); err == nil {
		t.Errorf("%s listens after Stop", conn.RemoteAddr())
	}
	if _, err := os.Stat(e.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files are left: %v", err)
	}
}

func TestWrongConfigurationIsExplained(t *testing.T) {
	_, err := Start("nonsense: true")
	if errors.Is(err, engine.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
}
