package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/child"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// locustMaster is a process of Locust that this one started. It ends with this
// process.
type locustMaster struct {
	cmd              *exec.Cmd
	folder           string
	address, webPage string // for workers, and for people
	ended            chan struct{}
	// The worker and announce say messages from two goroutines.
	talk sync.Mutex
}

// startMaster starts Locust with a file. Workers reach it from this machine only.
// It outlives ctx, since stop ends it.
func (o *loadLocalOptions) startMaster(
	ctx context.Context, program string, file []byte, picker bool,
) (*locustMaster, error) {
	const loopback = "127.0.0.1"
	webPort, err := findPort(o.webHost, o.port)
	if err != nil {
		return nil, fmt.Errorf("the page cannot listen on %s: %w; choose another port with --port",
			net.JoinHostPort(o.webHost, o.port), err)
	}

	port, err := findPort(loopback, anyPort)
	if err != nil {
		return nil, err
	}

	folder, err := os.MkdirTemp("", "zae-limiter-locust-")
	if err != nil {
		return nil, err
	}

	name := filepath.Join(folder, "locustfile.py")
	m := &locustMaster{
		folder: folder, address: net.JoinHostPort(loopback, port),
		webPage: "http://" + net.JoinHostPort(o.webHost, webPort), ended: make(chan struct{}),
	}

	args := []string{
		"-f", name, "--master", "--master-bind-host", loopback, "--master-bind-port", port, "--web-host", o.webHost,
		"--web-port", webPort,
		"--users", strconv.Itoa(o.users), "--spawn-rate", strconv.FormatFloat(o.spawnRate, 'f', -1, 64),
		"--loglevel", "WARNING",
	}

	// With --shape, the file has one shape, so there is nothing to pick.
	if picker && o.shape == "" {
		args = append(args, "--class-picker")
	}

	m.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...)
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr, m.cmd.WaitDelay = folder, o.Out, o.Err, time.Second

	// Ctrl-C must not end Locust before the worker has stopped its users.
	child.OwnGroup(m.cmd)

	err = os.WriteFile(name, file, 0o600)
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}

	go func() {
		defer close(m.ended)
		// Only the exit code matters.
		_ = m.cmd.Wait()
	}()

	return m, nil
}

// announce prints the address of the page once Locust serves it.
func (m *locustMaster) announce(ctx context.Context, c *kit.Console) {
	dialer := net.Dialer{}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", m.webPage[len("http://"):])
		if err == nil {
			_ = conn.Close()
			m.say(c, "Locust's page is at "+m.webPage+"; Ctrl-C ends the test")
			return
		}

		if pause.For(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

func (m *locustMaster) say(c *kit.Console, text string) {
	m.talk.Lock()
	defer m.talk.Unlock()
	c.Say("%s", text)
}

// log returns a function for the messages of a worker. It omits the first one,
// since Locust takes a second to listen.
func (m *locustMaster) log(c *kit.Console) func(string) {
	first := true
	return func(text string) {
		if !first {
			m.say(c, text)
		}
		first = false
	}
}

// await waits until the master has ended, but not longer than limit.
func (m *locustMaster) await(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-m.ended:
	case <-ctx.Done():
	}
}

// stop asks the master to end, waits for it, and returns its exit code.
func (m *locustMaster) stop() int {
	// Signal fails if Locust has ended, or if the system has no such signal.
	if m.cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = m.cmd.Process.Kill()
	}

	// A Locust that does not react must not hang this program.
	kill := time.AfterFunc(masterTimeout, func() { _ = m.cmd.Process.Kill() })
	defer kill.Stop()

	<-m.ended
	return m.cmd.ProcessState.ExitCode()
}

// remove ends the process, if it has not ended, and removes its files.
func (m *locustMaster) remove() error {
	m.stop()
	return os.RemoveAll(m.folder)
}

// anyPort stands for a port that is free.
const anyPort = "0"

// findPort returns a port on which a program can listen: the given one, or a
// random one. A random port is below the range from which systems choose ports for
// connections, so that no connection takes it before the program listens.
func findPort(host, port string) (string, error) {
	const first, last, tries = 20_000, 32_000, 20

	for i := 0; ; i++ {
		candidate := port
		if port == anyPort {
			candidate = strconv.Itoa(first + rand.IntN(last-first))
		}

		l, err := net.Listen("tcp", net.JoinHostPort(host, candidate)) //nolint:noctx // it does not wait
		if err == nil {
			return candidate, l.Close()
		}

		if port != anyPort || i == tries {
			return "", err
		}
	}
}
