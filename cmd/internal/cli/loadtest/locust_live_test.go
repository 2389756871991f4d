package loadtest_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// After an orderly stop the master, the workers and the table have counted the
// same requests, though every user was at work when the test ended.
func TestLocustWithTwoWorkersCountsEveryRequest(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	master := f.master([]string{"max_rps", "--keep"}, "--headless", "-u", "8", "-r", "100", "-t", "4s",
		"--expect-workers", "2", "--json-file", "out")
	workers := []*running{f.worker("one", "max_rps"), f.worker("two", "max_rps")}
	master.mustExit(0)
	for _, w := range workers {
		w.mustExit(0)
	}
	counted := f.results("out.json")
	users, parents := f.charged()
	reported := workers[0].reported() + workers[1].reported()
	t.Logf("%d requests in all, %d acquires", counted["all"], counted["ACQUIRE"])
	if counted["ACQUIRE"] == 0 || counted["ACQUIRE"] != users || counted["all"] != reported {
		t.Errorf("the master counted %v, the workers %d, the table %d acquires", counted, reported, users)
	}
	if parents == 0 || parents >= users {
		t.Errorf("the parent of all workers paid for %d of %d acquires; want those of half of the users", parents,
			users)
	}
	for _, w := range workers {
		if w.reported() == 0 {
			t.Errorf("%s had nothing to do", w.name)
		}
	}
}

// The page shows workers of ours, and one that was killed. That costs at most the
// requests since its last report. A worker whose master is killed gives up.
func TestLocustNoticesKilledProcesses(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	master := f.master([]string{"simple", "--keep"}, "--web-host", "127.0.0.1", "--web-port", f.webPort)
	f.eventually("the page", func(*masterPage) bool { return true })
	one, two := f.worker("one", "simple", "--give-up", "2s"), f.worker("two", "simple")
	f.eventually("two workers", func(p *masterPage) bool { return len(p.Workers) == 2 })
	if err := f.web(http.MethodPost, "/swarm", "user_count=20&spawn_rate=100", nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("users of both workers, and their processors", func(p *masterPage) bool {
		return p.State == "running" && p.UserCount == 20 && p.Workers[0].Users == 10 && p.Workers[0].CPU > 0 &&
			p.Workers[0].Memory > 0
	})
	f.eventually("reports of both", func(p *masterPage) bool { return p.acquires() > 100 })
	if err := two.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.eventually("a missing worker", func(p *masterPage) bool {
		return p.Workers[0].State == "missing" || p.Workers[1].State == "missing"
	})
	if err := f.web(http.MethodPost, "/stop", "", nil); err != nil {
		t.Fatal(err)
	}
	counted := f.eventually("the end", func(p *masterPage) bool { return p.State == "stopped" }).acquires()
	// A user of this scenario takes 0.55 s on average from one request to the next.
	const ofThreeSeconds = 10 * 3 / 0.55
	users, _ := f.charged()
	t.Logf("the master counted %d of %d acquires; the killed worker made about %.0f in 3 s", counted, users,
		ofThreeSeconds)
	if lost := users - counted; lost < 0 || float64(lost) > 1.5*ofThreeSeconds {
		t.Errorf("%d acquires are lost", lost)
	}
	if err := master.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	one.mustExit(1)
	if !strings.Contains(one.output(), "no Locust master at 127.0.0.1:"+f.port+" for 2s") {
		t.Errorf("it says %s", one.output())
	}
}

// A worker of ours and one of Python share a table and a master.
func TestLocustBesideAPythonWorker(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	python, err := filepath.Abs("testdata/python_worker.py")
	if err != nil {
		t.Fatal(err)
	}
	master := f.master([]string{"simple", "SimpleUser", "--keep"}, "--headless", "-u", "10", "-r", "100", "-t",
		"5s", "--stop-timeout", "5",
		"--expect-workers", "2", "--json-file", "out")
	other := f.locust("python", "-f", python, "--worker", "--master-host", "127.0.0.1", "--master-port", f.port)
	ours := f.worker("ours", "simple")
	master.mustExit(0)
	ours.mustExit(0)
	other.mustExit(0)
	counted := f.results("out.json")
	users, _ := f.charged()
	t.Logf("%d acquires, %d of them in Go", counted["ACQUIRE"], ours.reported())
	if counted["ACQUIRE"] != users || ours.reported() == 0 || ours.reported() >= users {
		t.Errorf("the master counted %v, the worker in Go %d, the table %d", counted, ours.reported(), users)
	}
}

// With --ui our program starts the master, runs a worker, and ends both. The
// namespace of the test is removed.
func TestLocustPageOfALocalTest(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	store := "sqlite:" + filepath.Join(f.dir, "limits.db")
	local := f.local(store)
	if err := f.web(http.MethodPost, "/swarm", "user_count=4&spawn_rate=100", nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("requests of the worker", func(p *masterPage) bool {
		return len(p.Workers) == 1 && p.Workers[0].Users == 4 && p.acquires() > 0
	})
	if err := local.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	local.mustExit(0)
	if out := local.output(); !strings.Contains(out, "ACQUIRE") {
		t.Errorf("it does not print Locust's summary:\n%s", out)
	}
	if err := f.web(http.MethodGet, "/", "", nil); err == nil {
		t.Error("Locust still runs")
	}
	f.noNamespaces("--store", store)
}

// A Locust that ends before its program fails it if it was killed. In either case
// the namespace is removed.
func TestLocustOfALocalTestEndsEarly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signal syscall.Signal
		code   int
		says   string
	}{
		"killed":      {syscall.SIGKILL, 1, "the program of Locust ended early: signal: killed"},
		"interrupted": {syscall.SIGINT, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSite(t)
			store := "sqlite:" + filepath.Join(f.dir, "limits.db")
			local := f.local(store)
			f.swarm(4)
			f.eventually("requests", func(p *masterPage) bool { return p.acquires() > 0 })
			child, err := os.FindProcess(childOf(t, local.cmd.Process.Pid))
			if err == nil {
				err = child.Signal(test.signal)
			}
			if err != nil {
				t.Fatal(err)
			}
			local.mustExit(test.code)
			if out := local.output(); !strings.Contains(out, test.says) || strings.Contains(out, "Traceback") {
				t.Errorf("it says:\n%s", out)
			}
			f.noNamespaces("--store", store)
		})
	}
}

// childOf returns the process that another one has started.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var pid, of int
		if _, err := fmt.Sscan(line, &pid, &of); err == nil && of == parent {
			return pid
		}
	}
	t.Fatalf("process %d has no child", parent)
	return 0
}

// A master whose program was killed ends by itself.
func TestLocustEndsWithTheProgramThatStartedIt(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	local := f.local("memory:")
	if err := local.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.waitFor("the end of Locust", func() bool { return f.web(http.MethodGet, "/", "", nil) != nil })
}

// local starts a local test under Locust's page and waits for the page.
func (f *site) local(store string) *running {
	f.Helper()
	p := f.start("local", "zae-limiter", "loadtest", "local", "simple", "--ui", "--port", "0",
		"--locust", filepath.Join(filepath.Dir(f.python), "locust"), "--store", store)
	pattern := regexp.MustCompile(`page is at http://127\.0\.0\.1:(\d+)`)
	f.waitFor("the page", func() bool {
		match := pattern.FindStringSubmatch(p.output())
		if match != nil {
			f.webPort = match[1]
		}
		return match != nil
	})
	f.eventually("the worker", func(p *masterPage) bool { return len(p.Workers) == 1 })
	return p
}

// All users run, however often workers come and go. A test that starts while the
// one before it ends keeps its users, and both namespaces are removed.
func TestLocustDividesUsersAgain(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	f.master([]string{"simple"}, "--web-host", "127.0.0.1", "--web-port", f.webPort)
	f.eventually("the page", func(*masterPage) bool { return true })
	a, b := f.worker("a", "simple"), f.worker("b", "simple")
	f.eventually("two workers", func(p *masterPage) bool { return len(p.Workers) == 2 })
	f.swarm(8)
	f.divided(8, 2)
	f.worker("c", "simple")
	f.divided(8, 3)
	f.worker("d", "simple")
	f.divided(8, 4)
	for i, leaving := range []*running{a, b} {
		if err := leaving.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		leaving.mustExit(0)
		f.divided(8, 3-i)
	}
	go func() { _ = f.web(http.MethodPost, "/stop", "", nil) }() // it answers after the removal
	f.eventually("the stop", func(p *masterPage) bool { return p.State != "running" })
	f.swarm(6)
	f.divided(6, 2)
	if err := f.web(http.MethodPost, "/stop", "", nil); err != nil {
		t.Fatal(err)
	}
	f.noNamespaces("--name", f.table)
}

// swarm starts a test on Locust's page.
func (f *site) swarm(users int) {
	f.Helper()
	if err := f.web(http.MethodPost, "/swarm", fmt.Sprintf("user_count=%d&spawn_rate=100", users), nil); err != nil {
		f.Fatal(err)
	}
}

// divided waits until all users run, and each worker has some.
func (f *site) divided(users, workers int) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d users in %d workers", users, workers), func(p *masterPage) bool {
		busy := 0
		for _, w := range p.Workers {
			if w.Users > 0 {
				busy++
			}
		}
		return p.State == "running" && p.UserCount == users && busy == workers && len(p.Workers) == workers
	})
}

// noNamespaces checks that no test has left its namespace in a store.
func (f *site) noNamespaces(store ...string) {
	f.Helper()
	list := f.start("list", append([]string{"zae-limiter", "namespace", "list"}, store...)...)
	list.mustExit(0)
	if strings.Contains(list.output(), "loadtest") {
		f.Errorf("namespaces are left:\n%s", list.output())
	}
}
