package webtest

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is a running zae-limiter that serves a page.
type program struct {
	t    *testing.T
	args []string
	// URL is the address of the page, such as http://127.0.0.1:9236/#token=abc.
	URL string

	command *exec.Cmd
	done    chan struct{}
	err     error
	ended   bool // by the test
	mu      sync.Mutex
	log     strings.Builder
}

// serve starts zae-limiter serve with its dashboard on a store.
func serve(t *testing.T, s *store, flags ...string) *program {
	t.Helper()
	return start(t,
		append([]string{"serve", "--store", s.URL(), "--listen", freeAddress(t), "--dashboard"}, flags...)...)
}

// start runs the program and waits for its page. The test stops it with an
// interrupt, after which it must end by itself with the exit code 0.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, args: args}
	p.run()
	t.Cleanup(p.interrupt)
	return p
}

// command returns a call of the program that sees no settings of the user.
func command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(ctx, shared.program, args...)
	c.Dir = t.TempDir()
	c.Env = []string{"HOME=" + c.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return c
}

func (p *program) run() {
	p.t.Helper()
	p.command = command(context.WithoutCancel(p.t.Context()), p.t, p.args...)
	p.command.WaitDelay = patience
	p.command.Stderr = p
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done, p.ended = make(chan struct{}), false
	lines := make(chan string, 1)
	go func() {
		defer close(p.done)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // only the first line matters
			}
		}
		p.err = p.command.Wait()
	}()
	if p.args[0] == "serve" {
		p.URL = "http://" + p.args[slices.Index(p.args, "--listen")+1] + "/dashboard/"
		go p.awaitAnswer(lines)
	}
	select {
	case line := <-lines:
		if p.args[0] != "serve" {
			p.URL = line
		}
	case <-p.done:
		p.t.Fatalf("zae-limiter %s: %v\n%s", strings.Join(p.args, " "), p.err, p.messages())
	case <-time.After(patience):
		p.kill()
		p.t.Fatalf("zae-limiter %s serves no page\n%s", strings.Join(p.args, " "), p.messages())
	}
}

// awaitAnswer sends the URL of the page once the server answers there.
func (p *program) awaitAnswer(lines chan<- string) {
	every := time.NewTicker(pollEvery)
	defer every.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-every.C:
		}
		answer, err := http.Get(p.URL) //nolint:noctx // the end of the program ends it
		if err == nil {
			_ = answer.Body.Close()
			lines <- p.URL
			return
		}
	}
}

// Write keeps what the program says on stderr.
func (p *program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *program) messages() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// host returns the address of the server.
func (p *program) host() string {
	_, rest, _ := strings.Cut(p.URL, "//")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// origin returns the URL of the server without a path.
func (p *program) origin() string { return "http://" + p.host() }

// token returns the token in the fragment of the URL, or "".
func (p *program) token() string {
	_, token, _ := strings.Cut(p.URL, "#token=")
	return token
}

// kill ends the program without a chance to say goodbye.
func (p *program) kill() {
	p.t.Helper()
	p.ended = true
	if err := p.command.Process.Kill(); err != nil {
		p.t.Error(err)
	}
	<-p.done
}

// restart runs the program again after kill, on the same address.
func (p *program) restart() {
	p.t.Helper()
	for i, arg := range p.args {
		if arg == "--listen" {
			p.args[i+1] = p.host()
		}
	}
	p.run()
}

// interrupt ends the program as Ctrl-C does.
func (p *program) interrupt() {
	select {
	case <-p.done:
		if !p.ended {
			p.t.Errorf("the program ended before the test: %v\n%s", p.err, p.messages())
		}
		return
	default:
	}
	p.ended = true
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		p.t.Error(err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Errorf("after an interrupt: %v\n%s", p.err, p.messages())
		}
	case <-time.After(patience):
		p.kill()
		p.t.Errorf("an interrupt does not end the program\n%s", p.messages())
	}
	if p.t.Failed() {
		p.t.Logf("zae-limiter %s said:\n%s", strings.Join(p.args, " "), p.messages())
	}
}

// freeAddress returns a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
