package loadtest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	family "github.com/zeroae/zae-limiter-go/cmd/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// patience limits each wait for a real Locust, which may be slow on a busy
// machine.
const patience = time.Minute

// installLocust returns the interpreter that has Locust.
var installLocust = sync.OnceValues(func() (string, error) {
	out, err := exec.CommandContext(context.Background(), "../../../../scripts/locust-local", "setup").Output()
	return strings.TrimSpace(string(out)), err
})

// pythonWithLocust returns the interpreter that has Locust. It skips the test
// where there is no Python, except in CI.
func pythonWithLocust(t *testing.T) string {
	t.Helper()
	python, err := installLocust()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 3 && os.Getenv("CI") != "true" {
		t.Skip("no Python for Locust")
	}
	if err != nil {
		t.Fatal(err)
	}
	return python
}

// site is where a test of a real Locust runs: a folder, a table and the ports of
// a master.
type site struct {
	*testing.T
	python, dir, table, endpoint string
	port, webPort                string
}

func newSite(t *testing.T) *site {
	t.Helper()
	f := &site{
		T: t, python: pythonWithLocust(t), dir: t.TempDir(), table: "locust-" + strings.ToLower(rand.Text()),
		endpoint: clitest.Engine.URL(t),
	}
	f.port, f.webPort = masterPort(t), masterPort(t)
	return f
}

func masterPort(t *testing.T) string {
	t.Helper()
	port, err := family.FindPort("127.0.0.1", family.AnyPort)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// env returns the environment of all processes.
func (f *site) env() []string {
	return append(os.Environ(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1",
		"AWS_ENDPOINT_URL="+f.endpoint,
		"ZAEL_STACK="+f.table, clitest.Patient+"=1", "PYTHONDONTWRITEBYTECODE=1")
}

// createTable creates the table of the test.
func (f *site) createTable() {
	f.Helper()
	create := exec.CommandContext(f.Context(), "zae-limiter", "table", "create", f.table)
	create.Env = f.env()
	if out, err := create.CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
}

// running is a process of a test. The test kills it if it is left.
type running struct {
	*site
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func (f *site) start(name string, args ...string) *running {
	f.Helper()
	p := &running{site: f, name: name, log: filepath.Join(f.dir, name+".log"), done: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		f.Fatal(err)
	}
	p.cmd = exec.CommandContext(context.Background(), args[0], args[1:]...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = f.dir, f.env(), file, file
	if err := p.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code says it
	}()
	f.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = file.Close()
		if f.Failed() {
			f.Logf("%s wrote:\n%s", name, p.output())
		}
	})
	return p
}

// exit waits for the end of a process and returns its exit code.
func (p *running) exit() int {
	p.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.Fatalf("%s does not end", p.name)
		return -1
	}
}

func (p *running) mustExit(want int) {
	p.Helper()
	if code := p.exit(); code != want {
		p.Errorf("%s: exit code %d, want %d", p.name, code, want)
	}
}

func (p *running) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// reported returns the requests that a worker says it has reported.
func (p *running) reported() int {
	p.Helper()
	match := regexp.MustCompile(`reported (\d+) requests and 0 failures`).FindStringSubmatch(p.output())
	if match == nil {
		p.Fatalf("%s does not say what it reported", p.name)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		p.Fatal(err)
	}
	return n
}

// worker starts a worker of ours.
func (f *site) worker(name, scenario string, args ...string) *running {
	f.Helper()
	return f.start(name,
		append([]string{"zae-limiter", "loadtest", "worker", scenario, "--master", "127.0.0.1:" + f.port}, args...)...)
}

// master starts Locust with the file that our program prints.
func (f *site) master(file []string, args ...string) *running {
	f.Helper()
	printer := exec.CommandContext(f.Context(), "zae-limiter", append([]string{"loadtest", "locustfile"}, file...)...)
	text, err := printer.Output()
	name := filepath.Join(f.dir, "master.py")
	if err := errors.Join(err, os.WriteFile(name, text, 0o600)); err != nil {
		f.Fatal(err)
	}
	return f.locust("master",
		append([]string{"-f", name, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", f.port},
			args...)...)
}

func (f *site) locust(name string, args ...string) *running {
	f.Helper()
	return f.start(name, append([]string{filepath.Join(filepath.Dir(f.python), "locust")}, args...)...)
}

// results reads what a headless master counted: requests by type.
func (f *site) results(file string) map[string]int {
	f.Helper()
	var rows []struct {
		Method   string `json:"method"`
		Requests int    `json:"num_requests"`
		Failures int    `json:"num_failures"`
	}
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	if err := errors.Join(err, json.Unmarshal(text, &rows)); err != nil {
		f.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.Method] += r.Requests
		counts["all"] += r.Requests
		if r.Failures > 0 {
			f.Errorf("%d calls of %s failed", r.Failures, r.Method)
		}
	}
	return counts
}

// charged returns the requests that the buckets of the table have counted:
// by users, and by parents of users.
func (f *site) charged() (users, parents int) {
	f.Helper()
	body := fmt.Sprintf(`{"TableName":%q,"ConsistentRead":true}`, f.table)
	request, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.endpoint, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810.Scan")
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	var page struct {
		Items            []map[string]map[string]any
		LastEvaluatedKey map[string]any
	}
	f.call(request, &page)
	if page.LastEvaluatedKey != nil {
		f.Fatal("the table has more than a page of items; use fewer users")
	}
	for _, item := range page.Items {
		total, ok := item["b_rpm_tc"]["N"].(string)
		if !ok {
			continue
		}
		thousandths, err := strconv.Atoi(total)
		if err != nil {
			f.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(item["PK"]), "ENTITY#org-") {
			parents += thousandths / 1000
		} else {
			users += thousandths / 1000
		}
	}
	return users, parents
}

func (f *site) call(request *http.Request, into any) {
	f.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(
		err, response.Body.Close(), json.Unmarshal(text, into),
	); err != nil || response.StatusCode != http.StatusOK {
		f.Fatalf("%s: %s, %v: %.500s", request.URL, response.Status, err, text)
	}
}

// masterPage is the part of Locust's /stats/requests that tests read.
type masterPage struct {
	State     string `json:"state"`
	UserCount int    `json:"user_count"`
	Stats     []struct {
		Method   string `json:"method"`
		Name     string `json:"name"`
		Requests int    `json:"num_requests"`
		Failures int    `json:"num_failures"`
	} `json:"stats"`
	Workers []struct {
		ID     string  `json:"id"`
		State  string  `json:"state"`
		Users  int     `json:"user_count"`
		CPU    float64 `json:"cpu_usage"`
		Memory int64   `json:"memory_usage"`
	} `json:"workers"`
}

// web calls Locust's page.
func (f *site) web(method, path, form string, into any) error {
	request, err := http.NewRequestWithContext(f.Context(), method, "http://127.0.0.1:"+f.webPort+path,
		strings.NewReader(form))
	if err != nil {
		return err
	}
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(into)
}

// eventually asks the page until it shows what the test waits for.
func (f *site) eventually(what string, ok func(*masterPage) bool) *masterPage {
	f.Helper()
	var last masterPage
	f.waitFor(what, func() bool {
		last = masterPage{}
		return f.web(http.MethodGet, "/stats/requests", "", &last) == nil && ok(&last)
	})
	return &last
}

// waitFor waits for a change of another process, which cannot notify us.
func (f *site) waitFor(what string, seen func() bool) {
	f.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !seen(); {
		select {
		case <-tick.C:
		case <-late:
			f.Fatalf("%s: not seen for %v", what, patience)
		}
	}
}

// acquires returns the number of acquires on the page.
func (p *masterPage) acquires() int {
	for _, row := range p.Stats {
		if row.Method == "ACQUIRE" {
			return row.Requests
		}
	}
	return 0
}

func TestPinnedLocustIsTheAnnouncedOne(t *testing.T) {
	pins, err := os.ReadFile("../../../../loadtest/locust/testdata/requirements.txt")
	if err != nil || !bytes.Contains(pins, []byte("\nlocust=="+locust.Version+"\n")) {
		t.Errorf("the tests run another Locust than %s, %v", locust.Version, err)
	}
}
