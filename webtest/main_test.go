package webtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/zeroae/zae-limiter-go/internal/engine"
)

// startTimeout bounds the build of the program and the start of the browser.
const startTimeout = 20 * time.Minute

// rig holds what all tests share: the program, the browser, and the script of
// axe-core. Each test opens a session of the browser and starts a process of its
// own.
type rig struct {
	program string
	axe     string
	browser context.Context
	// end serves the page that a tab visits last. Everything that the browser
	// reported before it belongs to the test.
	end *httptest.Server
}

var shared rig

var programFlag = flag.String("program", "", "path of the program to test; it is built if this is empty")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "webtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "webtest:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, err := shared.start(ctx, dir)
	defer stop()
	switch {
	case errors.Is(err, engine.ErrMissing) && os.Getenv("CI") != "true":
		fmt.Fprintln(os.Stderr, "webtest: all tests are skipped:", err)
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "webtest:", err)
		return 1
	}
	return m.Run()
}

// start builds the program, finds the tools and starts the browser. The caller
// must call stop in any case.
func (r *rig) start(ctx context.Context, dir string) (stop func(), err error) {
	stop = func() {}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	chromium, err := engine.Setup(limited, "chromium")
	if err != nil {
		return stop, err
	}
	script, err := engine.Setup(limited, "axe-core")
	if err != nil {
		return stop, err
	}
	source, err := os.ReadFile(script)
	if err != nil {
		return stop, err
	}
	r.axe = string(source)
	if r.program = *programFlag; r.program == "" {
		r.program = filepath.Join(dir, "zae-limiter")
		if err := build(limited, r.program); err != nil {
			return stop, err
		}
	}
	r.end = httptest.NewServer(http.HandlerFunc(serveEnd))
	browser, closeBrowser, err := startBrowser(ctx, chromium, filepath.Join(dir, "profile"))
	r.browser = browser
	return func() { closeBrowser(); r.end.Close() }, err
}

// build builds the program as releases do, without cgo.
func build(ctx context.Context, file string) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", file, "./cmd/zae-limiter")
	command.Dir = ".."
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

// startBrowser starts Chromium with a new profile, without a display. It resolves
// no name but those of this machine, so a test never needs a network.
func startBrowser(ctx context.Context, program, profile string) (browser context.Context, stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // the sandbox does not work for root, and the tests open pages of their own only
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("no-pings", true),
		chromedp.Flag("host-resolver-rules",
			"MAP "+reboundHost+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
	)
	ctx, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	stop = func() { closeBrowser(); closeAllocator() }
	if err := chromedp.Do(ctx); err != nil {
		return nil, stop, fmt.Errorf("starting %s: %w", program, err)
	}
	return ctx, stop, nil
}

func serveEnd(w http.ResponseWriter, _ *http.Request) {
	writePage(w, "<script>console.log("+strconv.Quote(endMark)+")</script>")
}

// writePage answers with a page of the tests themselves.
func writePage(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w,
		`<!doctype html><html lang=en><title>test</title><link rel=icon href="data:,"><body>`+body+`</body></html>`)
}
