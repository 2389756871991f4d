package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// These environment variables make the test program act as another process
// instead of running tests.
const (
	roleVariable = "ZAEL_TEST_ROLE"
	pathVariable = "ZAEL_TEST_PATH"
)

// visits are roles that open the file themselves.
var visits = map[string]func(ctx context.Context, path string) error{
	"visit": func(ctx context.Context, path string) error { return visit(ctx, path, nil) },
	"read":  func(ctx context.Context, path string) error { return visit(ctx, path, &sqlite.Options{ReadOnly: true}) },
	"die": func(ctx context.Context, path string) error {
		if _, err := sqlite.Open(ctx, path, nil); err != nil {
			return err
		}
		os.Exit(0) // without closing it
		return nil
	},
}

// visit opens the file, reads it, and closes it. It prints whether the user had
// the permission.
func visit(ctx context.Context, path string, opts *sqlite.Options) error {
	repo, err := sqlite.Open(ctx, path, opts)
	if errors.Is(err, fs.ErrPermission) {
		fmt.Println("no permission:", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, err := range repo.Entities(ctx, "") {
		if err != nil {
			return err
		}
	}
	fmt.Println("opened")
	return repo.Close()
}

var roles = map[string]func(ctx context.Context, repo *sqlite.Repository) error{
	"spend":  spend,
	"join":   join,
	"hammer": hammer,
	"top up": topUp,
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := play(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play performs a role once stdin is closed.
func play(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, _ = io.Copy(io.Discard, os.Stdin) // wait for the signal to begin
	if visit, ok := visits[name]; ok {
		return visit(ctx, os.Getenv(pathVariable))
	}
	role, ok := roles[name]
	if !ok {
		return fmt.Errorf("unknown role %q", name)
	}
	repo, err := sqlite.Open(ctx, os.Getenv(pathVariable), &sqlite.Options{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	return role(ctx, repo)
}

// process is another process that works on the file.
type process struct {
	*exec.Cmd
	in  io.Closer // closing it lets the process begin
	out *bufio.Scanner
	err *strings.Builder
}

// start starts a process and lets it begin.
func start(t *testing.T, role, path string) *process {
	t.Helper()
	p := startPaused(t, role, path)
	_ = p.in.Close()
	return p
}

// startPaused starts a process that begins when its stdin is closed.
func startPaused(t *testing.T, role, path string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	p := &process{Cmd: cmd, err: &strings.Builder{}}
	cmd.Stderr = p.err
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	spenders = 4             // concurrent calls of a process that spends
	plenty   = 1_000_000_000 // more tokens than a test takes
)

// slow returns a limit that does not refill while a test runs.
func slow(name string, capacity int64) limiter.Limit {
	return limiter.Custom(name, capacity, 1, 365*24*time.Hour)
}

// spend acquires forever and prints each admission after it returned.
func spend(ctx context.Context, repo *sqlite.Repository) error {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	failed := make(chan error, spenders)
	for i := range spenders {
		go func() {
			for n := int64(1); ; n++ {
				lease, err := lim.Acquire(ctx, limiter.Request{
					Entity: fmt.Sprintf("key-%d", i%2), Resource: "gpt-4",
					Consume: limiter.Tokens("rpm", 1).And("tpm", n%7),
				})
				if err == nil && n%5 == 0 {
					_ = lease.Adjust(limiter.Tokens("tpm", n%3)) // a second write
				}
				if err == nil {
					err = lease.Commit(ctx)
				}
				if err != nil {
					failed <- err
					return
				}
				_, _ = fmt.Printf("key-%d %d\n", i%2, n)
			}
		}()
	}
	return <-failed
}

// join sets limits and acquires once, as a new program does.
func join(ctx context.Context, repo *sqlite.Repository) error {
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	if err := lim.SetSystemDefaults(ctx, slow("rpm", plenty)); err != nil {
		return err
	}
	_, err = lim.Acquire(ctx, limiter.Request{Entity: "shared", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)})
	return err
}

const attempts = 10_000 // of each process in the role hammer

// hammer makes a number of attempts and prints how many were admitted and refused.
func hammer(ctx context.Context, repo *sqlite.Repository) error {
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	const goroutines = 8
	var mu sync.Mutex
	var group sync.WaitGroup
	admitted, refused := 0, 0
	for range goroutines {
		group.Go(func() {
			for range attempts / goroutines {
				_, acquireErr := lim.Acquire(ctx, limiter.Request{
					Entity: "shared", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
				})
				mu.Lock()
				switch {
				case acquireErr == nil:
					admitted++
				case isType[*limiter.ExceededError](acquireErr):
					refused++
				default:
					err = acquireErr
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Println(admitted, refused)
	return err
}

// topUp adds a token for each number, from 1 on, and prints the number afterwards.
// A number is the ID of its top-up, so that another process repeats them.
func topUp(ctx context.Context, repo *sqlite.Repository) error {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if _, err := lim.TopUp(ctx, "alice", "gpt-4", limiter.Tokens("tokens", 1), strconv.Itoa(n)); err != nil {
			return err
		}
		_, _ = fmt.Println(n)
	}
}

// open opens a file for a test, in a new folder if path is empty.
func open(t *testing.T, path string, opts *sqlite.Options) *sqlite.Repository {
	t.Helper()
	if path == "" {
		path = t.TempDir() + "/limits.db"
	}
	repo, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

func limiterOn(t *testing.T, repo limiter.Repository) *limiter.RateLimiter {
	t.Helper()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}
