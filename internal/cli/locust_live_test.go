package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// After an orderly stop the master, the workers and the table have counted the
// same requests, though every user was at work when the test ended.
func TestLocustWithTwoWorkersCountsEveryRequest(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	master := f.master([]string{"max_rps", "--keep"}, "--headless", "-u", "8", "-r", "100", "-t", "4s", "--expect-workers", "2", "--json-file", "out")
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
		t.Errorf("the parent of all workers paid for %d of %d acquires; want those of half of the users", parents, users)
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
	master := f.master([]string{"simple"}, "--web-host", "127.0.0.1", "--web-port", f.webPort)
	one, two := f.worker("one", "simple", "--give-up", "2s"), f.worker("two", "simple")
	f.eventually("two workers", func(p *page) bool { return len(p.Workers) == 2 })
	begin := time.Now()
	if err := f.web(http.MethodPost, "/swarm", "user_count=20&spawn_rate=100", nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("users of both workers, and their processors", func(p *page) bool {
		return p.State == "running" && p.UserCount == 20 && p.Workers[0].Users == 10 && p.Workers[0].CPU > 0 && p.Workers[0].Memory > 0
	})
	f.eventually("a report of each", func(p *page) bool { return p.requests("ACQUIRE") > 20 })
	if err := two.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.eventually("a missing worker", func(p *page) bool { return p.Workers[0].State == "missing" || p.Workers[1].State == "missing" })
	stopBegan := time.Now()
	if err := f.web(http.MethodPost, "/stop", "", nil); err != nil {
		t.Fatal(err)
	}
	last := f.eventually("the end", func(p *page) bool { return p.State == "stopped" })
	t.Logf("%d acquires in %v, stopped after %v", last.requests("ACQUIRE"), time.Since(begin), time.Since(stopBegan))
	if err := master.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	one.mustExit(1)
	if !strings.Contains(one.output(), "no Locust master at 127.0.0.1:"+f.port+" for 2s") {
		t.Errorf("it says %s", one.output())
	}
	users, _ := f.charged()
	if users != 0 {
		t.Errorf("the namespace of the test is left, with %d acquires", users)
	}
}

// A worker of ours and one of Python share a table and a master.
func TestLocustBesideAPythonWorker(t *testing.T) {
	t.Parallel()
	f := newSite(t)
	f.createTable()
	python, err := filepath.Abs("testdata/locust/python_worker.py")
	if err != nil {
		t.Fatal(err)
	}
	master := f.master([]string{"simple", "SimpleUser", "--keep"}, "--headless", "-u", "10", "-r", "100", "-t", "5s", "--stop-timeout", "5",
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
