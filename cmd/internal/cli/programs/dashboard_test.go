package programs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/programs"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// shown is the program as a dashboard, with the session of a browser.
type shown struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *bufio.Reader
	talk  bytes.Buffer
	URL   string // of the page, without its token
	token string
	viewer
}

// startDashboard starts the program and waits for its URL.
func startDashboard(t *testing.T, environment []string, args ...string) *shown {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	s := &shown{
		t: t,
		cmd: exec.CommandContext(t.Context(), "zae-limiter",
			append([]string{"dashboard", "--listen", "127.0.0.1:0"}, args...)...),
	}
	s.cmd.Env = append(os.Environ(), environment...)
	s.cmd.Stderr = &s.talk
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	line, err := s.out.ReadString('\n')
	match := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+/)#token=(\S{20,})\n$`).FindStringSubmatch(line)
	if match == nil {
		_ = s.cmd.Wait()
		t.Fatalf("it prints %q, %v: %s", line, err, &s.talk)
	}
	s.URL, s.token = match[1], match[2]
	s.viewer = newViewer(t, s.URL, nil)
	return s
}

// interrupt sends the signal of Ctrl-C, and returns the exit code, the rest of
// stdout and all messages.
func (s *shown) interrupt() (code int, rest, said string) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	left, _ := io.ReadAll(s.out)
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), string(left), s.talk.String()
}

// viewer is a browser with the page at a URL.
type viewer struct {
	t      *testing.T
	client *http.Client
	at     string  // ends in a slash; below it is the session
	place  *string // of the session, "" without one
}

func newViewer(t *testing.T, at string, transport http.RoundTripper) viewer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return viewer{t, &http.Client{Jar: jar, Transport: transport, Timeout: time.Minute}, at, new(string)}
}

// send sends a request as the page does.
func (v viewer) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, v.at+*v.place+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	page, err := url.Parse(v.at)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != http.MethodGet {
		req.Header.Set("Origin", page.Scheme+"://"+page.Host)
		req.Header.Set("Content-Type", "application/json")
	}
	return v.client.Do(req)
}

// call sends a request, a POST if there is a body, and returns the status and the
// answer.
func (v viewer) call(path, body string) (int, string) {
	v.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	res, err := v.send(v.t.Context(), method, path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// login opens a session, at whose path the page goes on.
func (v viewer) login(token string) int {
	v.t.Helper()
	status, answer := v.call("api/session", fmt.Sprintf(`{"token":%q}`, token))
	var opened struct{ Path string }
	if err := json.Unmarshal([]byte(answer), &opened); err != nil {
		v.t.Fatal(err)
	}
	*v.place = opened.Path
	return status
}

// stream opens the stream of live rows and waits for its first event.
func (v viewer) stream() *bufio.Reader {
	v.t.Helper()
	v.client.Timeout = 0
	res, err := v.send(v.t.Context(), http.MethodGet, "api/stream", "")
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = res.Body.Close() })
	events := bufio.NewReader(res.Body)
	if line, err := events.ReadString('\n'); line != "event: hello\n" {
		v.t.Fatalf("status %d: the stream begins with %q, %v", res.StatusCode, line, err)
	}
	return events
}

// The URL opens one session. Ctrl-C ends the program at once, with all streams.
func TestDashboardEndsWithItsStreams(t *testing.T) {
	store := serveStore(t)
	zael(t, "acquire", "key", "gpt-4", "rpd=1", "--store", store)
	s := startDashboard(t, nil, "--store", store)
	if status, answer := s.call("api/info", ""); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d %s", status, answer)
	}
	if status := s.login(s.token); status != http.StatusOK {
		t.Fatalf("the token opens no session: status %d", status)
	}
	if status := newViewer(t, s.URL, nil).login(s.token); status != http.StatusUnauthorized {
		t.Errorf("the token opens another session: status %d", status)
	}
	if status, answer := s.call("api/overview", ""); status != http.StatusOK ||
		!strings.Contains(answer, `"entity":"key"`) {
		t.Errorf("the overview: %d %s", status, answer)
	}
	const change = `{"action":"create_entity","entity":"new"}`
	if status, answer := s.call("api/change", change); status != http.StatusForbidden {
		t.Errorf("a change without --write: %d %s", status, answer)
	}
	events := s.stream()
	begun := time.Now()
	code, rest, said := s.interrupt()
	if code != kit.ExitDone || rest != "" || strings.Contains(said, "!") || strings.Contains(said, s.token) {
		t.Errorf("code %d: stdout %q, stderr %q", code, rest, said)
	}
	if took := time.Since(begun); took > programs.DashboardDrain {
		t.Errorf("the end took %v", took)
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// With --write the page changes what the audit trail then names the principal of.
func TestDashboardWrites(t *testing.T) {
	store := serveStore(t)
	s := startDashboard(t, nil, "--store", store, "--write", "--principal", "alice")
	s.login(s.token)
	if status, answer := s.call("api/change", `{"action":"create_entity","entity":"new"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone || !strings.Contains(said, "with changes") {
		t.Errorf("code %d: %s", code, said)
	}
	if audit := zael(
		t, "audit", "list", "-e", "new", "-o", "json", "--store", store,
	); !strings.Contains(audit, `"alice"`) {
		t.Errorf("the audit trail: %s", audit)
	}
}

// Logins that never arrive, more than a server answers at a time by default, leave
// the page reachable.
func TestDashboardOutlastsUnfinishedLogins(t *testing.T) {
	s := startDashboard(t, nil, "--store", serveStore(t))
	host := strings.Trim(strings.TrimPrefix(s.URL, "http:"), "/")
	for range listen.DefaultMaxRequests + 50 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(
			conn,
			"POST /api/session HTTP/1.1\r\nHost: %s\r\nOrigin: http://%[1]s\r\nContent-Type: "+
				"application/json\r\nContent-Length: 20\r\n\r\n{",
			host,
		); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := s.call("", ""); status != http.StatusOK {
		t.Errorf("the page: status %d", status)
	}
	if status := s.login(s.token); status != http.StatusOK {
		t.Errorf("a login: status %d", status)
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// An address that is taken is no reason to try another.
func TestDashboardAddressInUse(t *testing.T) {
	store := serveStore(t)
	s := startDashboard(t, nil, "--store", store)
	taken := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/")
	var talk bytes.Buffer
	second := exec.CommandContext(t.Context(), "zae-limiter", "dashboard", "--store", store, "--listen", taken)
	second.Stderr = &talk
	out, _ := second.Output()
	want := "zae-limiter: --listen " + taken + ": the address is in use, maybe by another dashboard; choose " +
		"another port, or 0 for a free one\n"
	if second.ProcessState.ExitCode() != kit.ExitFailed || len(out) > 0 || talk.String() != want {
		t.Errorf("code %d, stdout %q, stderr %q", second.ProcessState.ExitCode(), out, &talk)
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// reportVariable names the URL to which a fake browser reports what it was given.
const reportVariable = "ZAEL_TEST_BROWSER"

// sighting is the report of a fake browser.
type sighting struct {
	Target, Content string // its argument, and what the file of that name holds
	File, Folder    os.FileMode
}

// fakeBrowser plays xdg-open: it reads the file that it is given, and reports.
func fakeBrowser() {
	seen := sighting{Target: os.Args[len(os.Args)-1]}
	if file, err := os.Stat(seen.Target); err == nil {
		seen.File = file.Mode().Perm()
	}
	if folder, err := os.Stat(filepath.Dir(seen.Target)); err == nil {
		seen.Folder = folder.Mode().Perm()
	}
	content, _ := os.ReadFile(seen.Target)
	seen.Content = string(content)
	report, err := json.Marshal(seen)
	if err != nil {
		panic(err)
	}
	//nolint:noctx // it ends with the program
	res, err := http.Post(os.Getenv(reportVariable), "application/json", bytes.NewReader(report))
	if err != nil {
		panic(err)
	}
	_ = res.Body.Close()
}

// defaultBrowser plays xdg-settings: it prints the desktop file of the browser.
func defaultBrowser() { fmt.Println(os.Getenv("ZAEL_TEST_DESKTOP")) }

// The browser gets the token from a file that only the user can read, and the file
// is gone in the end. A browser without access to such files gets no token.
func TestDashboardOpensTheBrowser(t *testing.T) {
	sightings := make(chan sighting, 1)
	reports := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var seen sighting
		_ = json.NewDecoder(r.Body).Decode(&seen)
		sightings <- seen
	}))
	defer reports.Close()
	store := serveStore(t)
	screen := []string{
		"DISPLAY=:0", kit.ForceTerminal + "=80", reportVariable + "=" + reports.URL, "TMPDIR=" + t.TempDir(),
	}

	s := startDashboard(t, append(screen, "ZAEL_TEST_DESKTOP=firefox.desktop"), "--store", store)
	seen := <-sightings
	if strings.Contains(seen.Target, s.token) || !strings.Contains(
		seen.Content, `content="0; url=`+s.URL+"#token="+s.token+`"`,
	) || seen.File != 0o600 || seen.Folder != 0o700 {
		t.Errorf("the browser is given %+v", seen)
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone || strings.Contains(said, "!") {
		t.Errorf("code %d: %s", code, said)
	}
	if _, err := os.Stat(filepath.Dir(seen.Target)); !os.IsNotExist(err) {
		t.Errorf("the folder of the file is left, %v", err)
	}

	s = startDashboard(t, append(screen, "ZAEL_TEST_DESKTOP=firefox_firefox.desktop"), "--store", store)
	if seen := <-sightings; seen.Target != s.URL {
		t.Errorf("a snap is given %+v", seen)
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone || !strings.Contains(said, "cannot read private files") {
		t.Errorf("code %d: %s", code, said)
	}

	s = startDashboard(t, append(screen, "ZAEL_TEST_DESKTOP=firefox.desktop"), "--store", store, "--no-browser")
	if code, _, said := s.interrupt(); code != kit.ExitDone || len(sightings) > 0 {
		t.Errorf("--no-browser opens one: code %d: %s", code, said)
	}

	s = startDashboard(t, append(screen, "PATH="), "--store", store)
	if code, _, said := s.interrupt(); code != kit.ExitDone || strings.Count(said, "!") != 1 ||
		!strings.Contains(said, "! cannot open the browser: ") || !strings.Contains(said, "; open the URL above\n") {
		t.Errorf("without a program that opens browsers: code %d: %s", code, said)
	}
}
