package dynamo_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	endpointVariable = "ZAEL_TEST_DYNAMODB_ENDPOINT" // an engine that runs already; nothing is started then
	engineScript     = "../scripts/dynamodb-local"
	missingProgram   = 3               // its exit code
	missingShell     = 127             // the exit code if it cannot even start
	patience         = 5 * time.Minute // its first run downloads the engine
)

func TestMain(m *testing.M) {
	code := m.Run()
	dropPool()
	wires.CloseIdleConnections()
	if e := running.Load(); e != nil {
		if err := e.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the engine:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// engine is the URL of DynamoDB Local, started by the first test that asks. A
// test is skipped where the programs for it are missing, and fails there in CI.
func engine(tb testing.TB) string {
	tb.Helper()
	url, err := startedEngine()
	if errors.Is(err, errNoEngine) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return url
}

var (
	errNoEngine   = errors.New("this test needs DynamoDB Local")
	startedEngine = sync.OnceValues(startEngine)
	running       atomic.Pointer[engineProcess] // what TestMain has to stop
)

func startEngine() (string, error) {
	if url := os.Getenv(endpointVariable); url != "" {
		return url, nil
	}
	e, err := launch(engineScript, "run")
	if err != nil {
		if errors.Is(err, errNoEngine) {
			fmt.Fprintf(os.Stderr, "\n*** MOST TESTS OF THE DYNAMODB STORE DO NOT RUN: %v ***\n\n", err)
		}
		return "", err
	}
	running.Store(e)
	return e.url, nil
}

// engineProcess is a script that runs until its input is closed, which also
// happens when this process dies, in whatever way.
type engineProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

// launch has no goroutines, so that a test that looks for leaked ones may be
// the first to need the engine. Hence files and a deadline, not buffers.
func launch(name string, args ...string) (*engineProcess, error) {
	stderr, err := os.CreateTemp("", "dynamodb-local-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(stderr.Close(), os.Remove(stderr.Name())) }()
	stdout, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	e := &engineProcess{cmd: exec.CommandContext(context.Background(), name, args...)}
	e.cmd.Stdout, e.cmd.Stderr = output, stderr
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, output.Close())
	}
	err = errors.Join(e.cmd.Start(), output.Close(), stdout.SetReadDeadline(time.Now().Add(patience)))
	if e.cmd.Process == nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	if line, failed := bufio.NewReader(stdout).ReadString('\n'); failed == nil && err == nil {
		e.url = strings.TrimSpace(line)
		return e, nil
	}
	return nil, e.explain(stderr)
}

// explain stops a script that printed no URL and says why it did not.
func (e *engineProcess) explain(stderr io.ReadSeeker) error {
	err := e.stop()
	_, seek := stderr.Seek(0, io.SeekStart)
	said, read := io.ReadAll(stderr)
	text := bytes.TrimSpace(said)
	if code := e.cmd.ProcessState.ExitCode(); code == missingProgram || code == missingShell {
		return fmt.Errorf("%w: %s", errNoEngine, text)
	}
	return fmt.Errorf("%s gave no URL: %w\n%s", e.cmd, errors.Join(errors.New(e.cmd.ProcessState.String()), err, seek, read), text)
}

func (e *engineProcess) stop() error {
	kill := time.AfterFunc(time.Minute, func() { _ = e.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(e.stdin.Close(), e.cmd.Wait())
}

// wires carries the requests of all tests, so that one call closes what is idle.
var wires = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}

// awsConfig is for an engine, or a proxy before it. The engine keeps separate
// tables for each access key and region.
func awsConfig(endpoint string) *aws.Config {
	return &aws.Config{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   &http.Client{Transport: wires},
	}
}

// client talks to the engine directly, past the store and any proxy.
func client(tb testing.TB) *dynamodb.Client {
	tb.Helper()
	return dynamodb.NewFromConfig(*awsConfig(engine(tb)))
}

// tableName is new on every call, in all processes. The table is dropped at the
// end of the test, if it was made.
func tableName(tb testing.TB) string {
	tb.Helper()
	c := client(tb)
	name := fmt.Sprintf("%.20s-%s", strings.Map(tableRune, tb.Name()), strings.ToLower(rand.Text()))
	tb.Cleanup(func() {
		_, err := c.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		if err != nil && !isNotFound(err) {
			tb.Errorf("dropping the table: %v", err)
		}
	})
	return name
}

func isNotFound(err error) bool {
	_, is := errors.AsType[*types.ResourceNotFoundException](err)
	return is
}

func tableRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return r
	}
	return '-'
}

// noGoroutineLeft fails the test if goroutines that began after this call are
// still there at its end, after what was registered with t.Cleanup later. It is
// not for tests that run in parallel with others.
func noGoroutineLeft(tb testing.TB) {
	tb.Helper()
	before := goroutines()
	tb.Cleanup(func() {
		wires.CloseIdleConnections()
		left := newGoroutines(before)
		for try := 0; len(left) > 0 && try < 1000; try++ { // one that ends may take a moment
			time.Sleep(10 * time.Millisecond)
			left = newGoroutines(before)
		}
		if len(left) > 0 {
			tb.Errorf("%d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
}

func newGoroutines(before map[string]string) []string {
	var left []string
	for id, stack := range goroutines() {
		if _, old := before[id]; !old && !isIdleConnection(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// isIdleConnection knows the two goroutines of an HTTP client's connection. One
// that is in use has a caller besides, who is noticed.
func isIdleConnection(stack string) bool {
	return strings.Contains(stack, "net/http.(*persistConn).readLoop") || strings.Contains(stack, "net/http.(*persistConn).writeLoop")
}

// goroutines are the stacks of all of them by their number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for n := runtime.Stack(buf, true); ; n = runtime.Stack(buf, true) {
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	found := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		found[number] = stack
	}
	return found
}
