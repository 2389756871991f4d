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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// The test program plays other processes too: told so by the environment, it
// does their work instead of testing.
const (
	roleVariable = "ZAEL_TEST_ROLE"
	pathVariable = "ZAEL_TEST_PATH"
)

// visits open the file in their own way.
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

// visit opens the file, looks at what is in it, and closes it. A refusal is
// reported by its kind.
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
	fmt.Println("welcome")
	return repo.Close()
}

var roles = map[string]func(ctx context.Context, repo *sqlite.Repository) error{
	"spend":  spend,
	"come":   come,
	"hammer": hammer,
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

func play(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, _ = io.Copy(io.Discard, os.Stdin) // wait to be let go
	if visit, ok := visits[name]; ok {
		return visit(ctx, os.Getenv(pathVariable))
	}
	role, ok := roles[name]
	if !ok {
		return fmt.Errorf("role %q is none", name)
	}
	repo, err := sqlite.Open(ctx, os.Getenv(pathVariable), &sqlite.Options{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	return role(ctx, repo)
}

// process is another program at work on the file.
type process struct {
	*exec.Cmd
	in  io.Closer // lets it go
	out *bufio.Scanner
	err *strings.Builder
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	p := poised(t, role, path)
	_ = p.in.Close()
	return p
}

// poised is a process that has started and waits to be let go.
func poised(t *testing.T, role, path string) *process {
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
	plenty   = 1_000_000_000 // capacity that lasts for the whole test
)

// slow is a limit that gives nothing back while a test runs.
func slow(name string, capacity int64) limiter.Limit {
	return limiter.Custom(name, capacity, 1, 365*24*time.Hour)
}

// spend acquires without end and reports each admission after it returned.
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
					Entity: fmt.Sprintf("key-%d", i%2), Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", n%7),
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

// come does the first thing a new program does.
func come(ctx context.Context, repo *sqlite.Repository) error {
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

const attempts = 10_000 // of each process that hammers

// hammer tries a number of times and reports how many were admitted.
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
				_, acquireErr := lim.Acquire(ctx, limiter.Request{Entity: "shared", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)})
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

// open opens a file for a test, in a folder of its own if path is "".
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
