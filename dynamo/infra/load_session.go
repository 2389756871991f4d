package infra

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// tunnelPlugin is the program that forwards a port through Systems Manager.
const tunnelPlugin = "session-manager-plugin"

// ErrNoTunnel reports that the program that forwards ports is not installed.
var ErrNoTunnel = errors.New(
	tunnelPlugin + " is not in PATH; install the Session Manager plugin for the AWS CLI, version 1.2.497 or newer",
)

// CheckTunnel reports whether a local port can be forwarded: it returns ErrNoTunnel
// if the program for that is missing, or an error if the port is in use. It makes
// no call.
func CheckTunnel(ctx context.Context, port int) error {
	if _, err := exec.LookPath(tunnelPlugin); err != nil {
		return ErrNoTunnel
	}

	// Only an attempt to listen shows whether the port is free.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d cannot be used: %w; choose another one with --port", port, err)
	}
	return l.Close()
}

// Ports and limits of a tunnel.
const (
	masterPort  = 8089
	maxTunnels  = 5 // in a row that fail
	tunnelPause = 2 * time.Second
	pluginDelay = 5 * time.Second // between the interrupt of the program and its kill
)

// Forward forwards a local port to the web page of the master until ctx ends, and
// returns nil then. It calls ready each time the port accepts connections. It
// tries again after a failure, and returns the last error after five failures in a
// row.
func (t *LoadTask) Forward(ctx context.Context, port int, ready func()) error {
	for failures := 0; ; {
		opened := false

		err := t.tunnel(ctx, port, func() {
			opened = true
			ready()
		})

		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller ended it
		}

		// A session that opened was no failure in a row, so the count starts
		// anew.
		if failures++; opened {
			failures = 1
		}

		if failures == maxTunnels {
			return fmt.Errorf("forward port %d to task %s: %w", port, t.ID, err)
		}

		// A task that ends takes its tunnel along, and no attempt would bring
		// it back.
		if task, failed := t.describe(ctx); failed == nil && task.LastStatus == taskStopped {
			return fmt.Errorf("task %s stopped: %s", t.ID, stopReason(task))
		}

		t.opts.Progress("connecting again, since " + err.Error())
		if pause.For(ctx, min(tunnelPause, t.s.opts.Poll)) != nil {
			return nil //nolint:nilerr // the caller ended it
		}
	}
}

// tunnel opens one session and runs the program that forwards the port. It always
// returns an error.
func (t *LoadTask) tunnel(ctx context.Context, port int, ready func()) error {
	// Systems Manager prescribes the form of the target and the names of the
	// parameters.
	request := tunnelRequest{
		Target:       fmt.Sprintf("ecs:%s_%s_%s", t.Cluster, t.ID, t.runtime),
		DocumentName: "AWS-StartPortForwardingSessionToRemoteHost",
		Parameters: map[string][]string{
			"host": {"127.0.0.1"}, "portNumber": {strconv.Itoa(masterPort)},
			"localPortNumber": {strconv.Itoa(port)},
		},
	}

	var session tunnelSession
	if err := t.s.tunnels.call(ctx, "StartSession", request, &session); err != nil {
		return explain(err)
	}
	defer t.endSession(ctx, session.SessionId)

	cmd, err := t.s.plugin(ctx, request, session)
	if err != nil {
		return err
	}

	output := &pluginOutput{ready: ready}
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	return fmt.Errorf("%s ended: %s", tunnelPlugin,
		cmp.Or(output.last(), fmt.Sprint(cmp.Or(err, errors.New("no output")))))
}

// tunnelRequest is the request of StartSession, which the program that forwards the
// port gets, too.
type tunnelRequest struct {
	DocumentName string
	Parameters   map[string][]string
	Target       string
}

// tunnelSession is the response of StartSession.
type tunnelSession struct{ SessionId, StreamUrl, TokenValue string }

// endSession terminates a session. Systems Manager would end it later, too.
func (t *LoadTask) endSession(ctx context.Context, id string) {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	_ = t.s.tunnels.call(ctx, "TerminateSession", map[string]string{"SessionId": id}, nil)
}

// responseVariable is the environment variable that holds the response of
// StartSession. Its token must not be visible in the list of processes.
const responseVariable = "AWS_SSM_START_SESSION_RESPONSE"

// plugin returns the command that forwards the port of a session.
func (s *session) plugin(ctx context.Context, request tunnelRequest, session tunnelSession) (*exec.Cmd, error) {
	in, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}

	out, err := json.Marshal(session)
	if err != nil {
		return nil, err
	}

	endpoint, err := s.tunnels.endpoint(ctx, false, false)
	if err != nil {
		return nil, err
	}

	path, err := exec.LookPath(tunnelPlugin)
	if err != nil {
		return nil, ErrNoTunnel
	}

	//nolint:gosec // the program of that name in PATH
	cmd := exec.CommandContext(ctx, path, responseVariable, s.region, "StartSession", os.Getenv("AWS_PROFILE"),
		string(in), endpoint.String())
	cmd.Env = append(os.Environ(), responseVariable+"="+string(out))
	// An interrupt lets the plugin end its session. One that hangs is killed
	// after a while.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = pluginDelay
	// A terminal sends an interrupt to its whole process group, and the plugin
	// has to live until this process ends it.
	detach(cmd)

	return cmd, nil
}

// pluginOutput follows the output of the program.
type pluginOutput struct {
	ready func()

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

// Write calls ready once the program waits for connections.
func (o *pluginOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	const maxText = 64 << 10
	// The output of a session of hours has no end, and only its last line is of
	// use.
	if o.text.Len()+len(p) > maxText {
		o.text.Reset()
	}

	o.text.Write(p)
	// The plugin prints this once its port accepts connections.
	if !o.told && strings.Contains(o.text.String(), "Waiting for connections") {
		o.told = true
		o.ready()
	}

	return len(p), nil
}

// last returns the last line.
func (o *pluginOutput) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.text.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
