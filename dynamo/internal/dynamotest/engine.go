// Package dynamotest is the fixture of the tests of package dynamo: DynamoDB
// Local, tables, a proxy that fails on demand, a counter of requests, scripted
// streams and an aggregator that runs beside a repository.
package dynamotest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/engine"
	localdynamodb "github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
)

// Main runs the tests of a package, stops the engine they started and returns
// the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	dropPool()
	Transport.CloseIdleConnections()
	return shared.Stop(code)
}

// Endpoint returns the URL of DynamoDB Local and starts it for the first test
// that asks. It skips the test where DynamoDB Local is missing.
func Endpoint(tb testing.TB) string {
	tb.Helper()
	return shared.URL(tb)
}

var shared = engine.Share(startEngine)

func startEngine() (*engine.Server, error) {
	e, err := localdynamodb.Start()
	if errors.Is(err, engine.ErrMissing) {
		fmt.Fprintf(os.Stderr, "\n*** MOST TESTS OF THE DYNAMODB STORE DO NOT RUN: %v ***\n\n", err)
	}
	return e, err
}

// Transport carries the requests of all tests, so that one call closes the idle
// connections.
var Transport = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}

// Config returns the AWS config for the engine or a proxy before it. The engine
// keeps separate tables for each access key and region.
func Config(endpoint string) *aws.Config {
	return &aws.Config{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   &http.Client{Transport: Transport},
	}
}

// Client returns a client that talks to the engine directly, without the store
// and any proxy.
func Client(tb testing.TB) *dynamodb.Client {
	tb.Helper()
	return dynamodb.NewFromConfig(*Config(Endpoint(tb)))
}

// TableName returns a name that is unique across processes. If the test creates
// the table, it is deleted at the end of the test.
func TableName(tb testing.TB) string {
	tb.Helper()

	c := Client(tb)
	// The store accepts names of up to 55 characters.
	name := fmt.Sprintf("%.20s-%s", strings.Map(tableRune, tb.Name()), strings.ToLower(rand.Text()))

	tb.Cleanup(func() {
		// A test that failed early may not have created the table.
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

// CheckGoroutines fails the test if goroutines that started after this call are
// still running at the end of the test. The check runs after later cleanups.
// Parallel tests cannot use it.
func CheckGoroutines(tb testing.TB) {
	tb.Helper()
	before := goroutines()

	tb.Cleanup(func() {
		// Idle connections have goroutines too, which no test leaves on
		// purpose.
		Transport.CloseIdleConnections()

		left := newGoroutines(before)
		// Goroutines take a moment to end.
		for try := 0; len(left) > 0 && try < 1000; try++ {
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

// isIdleConnection reports whether a stack belongs to one of the two goroutines
// of an HTTP connection. If the connection is in use, its caller is found as
// well.
func isIdleConnection(stack string) bool {
	return strings.Contains(stack, "net/http.(*persistConn).readLoop") || strings.Contains(stack,
		"net/http.(*persistConn).writeLoop")
}

// goroutines returns the stacks of all goroutines by number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	// Stack cuts off what does not fit, so a full buffer may lack stacks.
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

// Connect opens a table the way a process does. The AWS config defaults to the
// one of the engine.
func Connect(tb testing.TB, table string, opts *dynamo.Options) *dynamo.Repository {
	tb.Helper()

	var o dynamo.Options
	if opts != nil {
		o = *opts
	}

	if o.AWS == nil {
		o.AWS = Config(Endpoint(tb))
	}

	o.Timeout = cmp.Or(o.Timeout, LongTimeout)
	// Tests run without other processes, whose late writes these options wait
	// for.
	o.PurgeWait, o.SwitchWait = cmp.Or(o.PurgeWait, -1), cmp.Or(o.SwitchWait, -1)

	repo, err := dynamo.Connect(context.Background(), table, &o)
	must(tb, err)
	tb.Cleanup(func() { _ = repo.Close() })
	return repo
}

// LongTimeout is the Options.Timeout of tests with another subject: the engine
// shares the machine with all of them.
const LongTimeout = time.Minute

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
