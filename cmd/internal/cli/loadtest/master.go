package loadtest

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/child"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// envLocust names the program of Locust.
const envLocust = "ZAEL_LOCUST"

const (
	pageTimeout   = 30 * time.Second // for Locust to show its page
	masterTimeout = 3 * time.Minute  // for Locust to end a test
	masterGrace   = 5 * time.Second  // for Locust to end by itself
	removeTimeout = 2 * time.Minute  // for the removal of a namespace
)

// loadUI configures the web page of a local test.
type loadUI struct {
	ui            bool
	locust        string
	webHost, port string
}

func (o *loadUI) addFlags(cmd *cobra.Command) {
	o.webHost, o.port = "127.0.0.1", "8089"

	flags := cmd.Flags()
	flags.BoolVar(&o.ui, "ui", false, "run the test under the web page of Locust, which must be installed")
	flags.StringVar(&o.locust, "locust", "",
		"`program` of Locust for --ui (default $"+envLocust+", else locust in the PATH)")
	flags.StringVar(&o.webHost, "web-host", o.webHost, "`address` of the page of --ui, which asks for no password")
	kit.AddFlag(cmd, &o.port, "port", "number", o.port, "port of the page of --ui; 0 chooses a free one", parsePort)
}

func parsePort(text string) (string, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", errors.New("must be a whole number from 0 to 65535")
	}
	return strconv.FormatUint(n, 10), nil
}

// findLocust returns the path of Locust.
func (o *loadUI) findLocust() (string, error) {
	name := cmp.Or(o.locust, os.Getenv(envLocust), "locust")
	// LookPath finds a program in the current folder, too, if PATH names that
	// folder, but reports ErrDot with it.
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf(
			"cannot run %q: Locust is not installed; install it with pip install locust==%s, or name its "+
				"program with --locust",
			name, locust.Version,
		)
	}
	return path, nil
}

// checkUI rejects flags that have no meaning under Locust.
func (o *localOptions) checkUI() error {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"rate", o.rate > 0},
		{"html", o.html != ""},
		{"fail-if", len(o.failIf) > 0},
		{"json", o.json},
		{"duration", o.durationGiven},
	} {
		if flag.given {
			return kit.Usagef(
				"--ui and --%s exclude each other, since Locust's page starts and ends tests and has reports "+
					"of its own; leave one of them out",
				flag.name,
			)
		}
	}

	return nil
}

// runUI runs a scenario under the web page of Locust, with a master as a
// process of its own and a worker in this one. It ends with ctx, or if one of
// them does.
func runUI(ctx context.Context, o *localOptions, s loadtest.Scenario, classes []string) (err error) {
	if err := o.checkUI(); err != nil {
		return err
	}

	program, err := o.findLocust()
	if err != nil {
		return err
	}

	file, err := locust.File(s, &locust.FileOptions{Classes: classes, Shape: o.shape, Follow: true})
	if err != nil {
		return kit.Usagef("%v", err)
	}

	repo, err := o.OpenAs(ctx, kit.OpenOptions{Access: kit.Create, PurgeWait: noPurgeWait})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	master, err := o.startMaster(ctx, program, file, len(s.Shapes) > 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, master.remove()) }()

	// The worker outlives ctx: it stops users and removes the namespace when the
	// master says so.
	working, leave := context.WithCancel(context.WithoutCancel(ctx))

	defer leave()

	worked := make(chan error, 1)
	go func() {
		var removed error
		_, err := locust.Work(working, master.address, swarms(o.Connection, repo, s), &locust.Options{
			Scenario: s.Name, Classes: classes, Log: master.log(o.Console),
			Left: func(test string) { removed = errors.Join(removed, removeTest(working, repo, s, test)) },
		})
		worked <- errors.Join(err, removed)
	}()

	return o.follow(ctx, master, leave, worked)
}

// follow waits for the end of a test under Locust and ends both of its parts:
// the master first, since it stops the worker in order.
func (o *localOptions) follow(
	ctx context.Context, master *locustMaster, leave context.CancelFunc, worked <-chan error,
) error {
	serving, stop := context.WithTimeout(ctx, pageTimeout)

	announced := make(chan struct{})
	go func() {
		defer close(announced)
		master.announce(serving, o.Console)
	}()

	var failed error
	// A worker that has ended has nothing more to report.
	running := true
	select {
	case <-ctx.Done():
	case <-master.ended:
	case failed = <-worked:
		running = false

		// The worker also ends when the master says quit, and then the master
		// needs a moment to end by itself.
		master.await(ctx, masterGrace)
	}
	// The page must not be announced in the middle of what follows.
	stop()
	<-announced

	defer o.Progress(func() string { return "waiting until Locust has ended the test" })()

	code := master.stop()
	leave()

	if running {
		failed = <-worked
	}
	// An interrupt also ends Locust, with a code that says nothing.
	if ctx.Err() == nil && code != 0 {
		failed = errors.Join(failed, fmt.Errorf("the program of Locust ended early: %v", master.cmd.ProcessState))
	}

	return failed
}

// removeTest removes the namespace of a test whose master has ended before it.
func removeTest(ctx context.Context, repo limiter.Repository, s loadtest.Scenario, test string) error {
	swarm, err := loadtest.NewSwarm(repo, s, &loadtest.SwarmOptions{ID: test})
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()

	return swarm.Teardown(ctx)
}

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
func (o *localOptions) startMaster(
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
