// Package envoy starts Envoy for tests.
package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/engine"
)

// readyTimeout bounds the time that Envoy needs after its start.
const readyTimeout = 30 * time.Second

// Server is a running Envoy. It stops when this process dies.
type Server struct {
	script    *engine.Server
	dir       string
	listeners map[string]string
}

// Start runs Envoy with a configuration in YAML and waits until it is ready. The
// first call installs it. The configuration puts the administration interface on
// port 0 of the loopback address. Listeners with a name may have port 0 too. The
// caller must stop Envoy.
func Start(config string) (*Server, error) {
	dir, err := os.MkdirTemp("", "envoy-")
	if err != nil {
		return nil, err
	}

	e := &Server{dir: dir}
	file := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	if e.script, err = engine.Run("envoy-local", file); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := e.await(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// Addr returns the address of a listener, or "" if there is none of that name.
func (e *Server) Addr(listener string) string { return e.listeners[listener] }

// Stop stops Envoy and waits for its end. It must be called once.
func (e *Server) Stop() error {
	return errors.Join(e.script.Stop(), os.RemoveAll(e.dir))
}

// await waits until Envoy is ready and reads the addresses of its listeners.
func (e *Server) await(ctx context.Context) error {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()

	for {
		err := e.get(ctx, "/ready", nil)
		if err == nil {
			return e.readListeners(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("envoy is not ready: %w", err)
		case <-every.C:
		}
	}
}

func (e *Server) readListeners(ctx context.Context) error {
	var answer struct {
		Statuses []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}

	if err := e.get(ctx, "/listeners?format=json", &answer); err != nil {
		return err
	}

	// A listener with port 0 has the port that the system chose, which only Envoy
	// knows.
	e.listeners = map[string]string{}
	for _, l := range answer.Statuses {
		e.listeners[l.Name] = fmt.Sprintf("%s:%d", l.Local.Socket.Address, l.Local.Socket.Port)
	}
	return nil
}

// get reads a page of the administration interface. It decodes JSON into answer
// unless that is nil.
func (e *Server) get(ctx context.Context, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.script.URL()+path, http.NoBody)
	if err != nil {
		return err
	}

	// An idle connection would be a goroutine, which tests for leaks would
	// find.
	request.Close = true

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}

	if answer == nil {
		return nil
	}

	return json.NewDecoder(response.Body).Decode(answer)
}
