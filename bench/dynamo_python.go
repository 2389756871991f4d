package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// python is a process that runs the Python library. The peer script documents
// its protocol. It handles one call at a time.
type python struct {
	child  *child
	tables int
}

const peerScript = "../dynamo/internal/interop/testdata/peer.py"

// startPython runs a script that prints a Python interpreter with the library,
// which the script installs if needed. It then starts the peer. An empty
// script means no Python.
func startPython(ctx context.Context, script, endpoint string) (*python, error) {
	if script == "" {
		return nil, errors.New("it is switched off")
	}

	c, interpreter, err := startServer(ctx, script, "setup")
	if err != nil {
		return nil, err
	}

	if err := c.close(); err != nil {
		return nil, err
	}

	c, err = start(ctx, pythonEnv(), interpreter, peerScript, "--endpoint-url", endpoint, "--region", awsRegion)
	return &python{child: c}, err
}

// pythonEnv returns the environment without a developer's settings,
// credentials and proxies.
func pythonEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(variable), "=")
		return strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "ZAEL_") ||
			strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(name, "_PROXY")
	})
	return append(env, "AWS_ACCESS_KEY_ID="+awsKey, "AWS_SECRET_ACCESS_KEY="+awsKey, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "PYTHONDONTWRITEBYTECODE=1")
}

// call runs an operation and decodes its result, which may be nil.
func (p *python) call(op string, args map[string]any, result any) error {
	request, err := json.Marshal(map[string]any{"op": op, "args": args})
	if err != nil {
		return err
	}

	if _, err := p.child.in.Write(append(request, '\n')); err != nil {
		return err
	}

	line, err := p.child.line()
	if err != nil {
		return err
	}

	reply := struct{ OK, Error json.RawMessage }{}
	if err := json.Unmarshal([]byte(line), &reply); err != nil {
		return err
	}

	if reply.Error != nil {
		return fmt.Errorf("python %s: %s", op, reply.Error)
	}

	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.OK, result)
}

func (p *python) close() error {
	if p == nil {
		return nil
	}
	return p.child.close()
}

// pythonTable is the table at one endpoint in the Python process.
type pythonTable struct {
	*python
	handle string
}

// table opens a prepared table. It returns nil without a process.
func (p *python) table(endpoint string) (*pythonTable, error) {
	if p == nil {
		return nil, nil
	}

	// Each table has a handle, since one process serves several endpoints.
	p.tables++
	t := &pythonTable{p, fmt.Sprint(p.tables)}
	return t, p.call("open", map[string]any{
		"handle": t.handle, "stack": benchTable, "namespace": "default", "auto_update": false, "endpoint_url": endpoint,
	}, nil)
}

// probe acquires from tasks. The allocations of Python are unknown.
func (t *pythonTable) probe(tasks int) probe {
	return probe{caller{namePython, tasks}, func(n int) (figures, error) {
		var got struct {
			Admitted int            `json:"admitted"`
			Errors   map[string]int `json:"errors"`
			Wall     float64        `json:"wall_seconds"`
			CPU      float64        `json:"cpu_seconds"`
			P50      float64        `json:"p50_ms"`
			P95      float64        `json:"p95_ms"`
			P99      float64        `json:"p99_ms"`
		}

		err := t.call("bench", map[string]any{
			"handle": t.handle, "entity_id": loner, "resource": benchResource, "consume": benchAmounts(),
			"calls": n, "concurrency": tasks, "warmup": warmup(n),
		}, &got)
		// A call that was not admitted costs less, so the figures would not
		// compare.
		if err == nil && got.Admitted != n {
			err = fmt.Errorf("python: %d of %d calls admitted, errors %v", got.Admitted, n, got.Errors)
		}

		// Python reports seconds and milliseconds, and figures are in
		// nanoseconds.
		const ms = float64(time.Millisecond)
		return figures{
			perSecond: float64(n) / got.Wall, p50: got.P50 * ms, p95: got.P95 * ms, p99: got.P99 * ms,
			cpuPerCall: got.CPU * 1000 * ms / float64(n), calls: float64(n),
		}, err
	}}
}
