package loadtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// watched is a swarm on a new store whose events are counted.
type watched struct {
	*loadtest.Swarm
	lim    *limiter.RateLimiter // in the namespace of the test
	mu     sync.Mutex
	events map[string]int // by type and name
	failed []error
}

// watchFile sets up the scenario in a file.
func watchFile(t *testing.T, text string) *watched {
	t.Helper()
	s, err := loadtest.Parse("file.yaml", []byte(text))
	check(t, err)
	repo := openMemory(t)
	w := &watched{events: map[string]int{}}
	w.Swarm, err = loadtest.NewSwarm(repo, s, &loadtest.SwarmOptions{Seed: 1, Record: w.record})
	check(t, err)
	check(t, w.Setup(t.Context()))
	view, err := repo.Namespace(t.Context(), w.Test().Namespace)
	check(t, err)
	w.lim, err = limiter.New(view, nil)
	check(t, err)
	return w
}

func (w *watched) record(e loadtest.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[e.Type+" "+e.Name]++
	if e.Err != nil {
		w.failed = append(w.failed, e.Err)
	}
}

// runFor runs users of a class for a time.
func (w *watched) runFor(t *testing.T, d time.Duration, users map[string]int) {
	t.Helper()
	check(t, w.Scale(users))
	time.Sleep(d)
	check(t, w.Stop(t.Context()))
	if len(w.failed) > 0 {
		t.Errorf("%d calls failed, first with %v", len(w.failed), w.failed[0])
	}
}

func TestFileRunsEveryKindOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFile(t, string(fixtures(t, "valid")["chat.yaml"]))
		w.runFor(t, 2*time.Minute, map[string]int{"ChatUser": 10})
		for _, event := range []string{
			"CREATE_ENTITY entity", "ACQUIRE gpt-4", "ACQUIRE gpt-4o", "COMMIT gpt-4", "AVAILABLE gpt-4",
		} {
			if w.events[event] == 0 {
				t.Errorf("there is no event %s in %v", event, w.events)
			}
		}
		if large, small := w.events["ACQUIRE gpt-4"], w.events["ACQUIRE gpt-4o"]; large < 2*small || large > 4*small {
			t.Errorf("%d and %d acquires, want about 3 to 1", large, small)
		}
		children := 0
		for child, err := range w.lim.Children(t.Context(), "project-1") {
			check(t, err)
			children++
			if !child.Cascade {
				t.Errorf("%s does not cascade", child.ID)
			}
		}
		if children != 10 {
			t.Errorf("the project has %d children, want one for each user", children)
		}
		limits, err := w.lim.Limits(t.Context(), "project-1", "gpt-4")
		check(t, err)
		if len(limits) != 2 || limits[0].Capacity != 2000 {
			t.Errorf("the limits of the project are %v", limits)
		}
	})
}

func TestFilePicksEntitiesByZipf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFile(t, `
system: {limits: {rpm: 1000000/365day}}
classes:
  Batch:
    wait: 10ms
    entity: {count: 100, zipf: 1}
    tasks: {call: {acquire: api, consume: {rpm: 1}}}
`)
		w.runFor(t, 20*time.Second, map[string]int{"Batch": 10})
		used := func(id string) int64 {
			left, err := w.lim.Available(t.Context(), id, "api")
			check(t, err)
			return 1_000_000 - left.Get("rpm")
		}
		first, second, tenth := used("entity-00000"), used("entity-00001"), used("entity-00009")
		if first == 0 || first < second || second < tenth {
			t.Errorf("used %d, %d and %d of the first, second and tenth entity, want ever less", first, second, tenth)
		}
	})
}

func TestFileSharesEntities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFile(t, `
resources: {api: {limits: {rpm: 100/day}}}
entities: {org: {resources: {_default_: {limits: {rpm: 1000/day}}}}}
classes:
  One: {entity: shared, wait: 1s, tasks: {call: {acquire: api, consume: {rpm: 1}}}}
  Two: {entity: {name: whale}, parent: org, wait: 1s, tasks: {call: {acquire: api, consume: {rpm: 2..2}, used: {rpm: 3}}}}
`)
		w.runFor(t, 4500*time.Millisecond, map[string]int{"One": 2, "Two": 1})
		for entity, want := range map[string]int64{"shared-One": 90, "whale": 85, "org": 985} {
			left, err := w.lim.Available(t.Context(), entity, "api")
			check(t, err)
			if got := left.Get("rpm"); got != want {
				t.Errorf("%s has %d left, want %d", entity, got, want)
			}
		}
	})
}

func TestFindReadsFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	least := string(fixtures(t, "valid")["least.yaml"])
	write("mine.yaml", least)
	write("other.yml", "name: named\n"+least)
	write("simple.yaml", least)
	write("wrong.yaml", "classes: 5")
	write("limits.yaml", "resources: {}")
	for name, want := range map[string]string{
		"mine": "mine", "mine.yaml": "mine", "other": "named", "named": "named",
		filepath.Join(dir, "mine.yaml"): "mine", "load/mine.py": "mine", "simple.yaml": "simple",
	} {
		s, err := loadtest.Find(name, dir)
		if err != nil || s.Name != want || len(s.Classes) != 1 {
			t.Errorf("%s is %s with %d classes, error %v", name, s.Name, len(s.Classes), err)
		}
	}
	if s, err := loadtest.Find("simple", dir); err != nil || len(s.Classes) != 2 {
		t.Errorf("simple has %d classes, want the scenario of the package; error %v", len(s.Classes), err)
	}
	for name, want := range map[string]string{
		"absent": "and the files NAME.yaml in " + dir, "absent.yaml": "absent.yaml",
		"wrong": "wrong.yaml:1: classes: must be a mapping, not 5",
	} {
		if _, err := loadtest.Find(name, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of %s is %v, want %q in it", name, err, want)
		}
	}
	write("third.yaml", "name: named\n"+least)
	_, err := loadtest.Find("named", dir)
	if want := `other.yml and third.yaml have this name; choose one of the files, such as other.yml`; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("two files have the name, but the error is %v", err)
	}
	check(t, os.Remove(filepath.Join(dir, "third.yaml")))
	all, err := loadtest.LoadDir(dir)
	if err == nil || !strings.HasSuffix(err.Error(), "wrong.yaml:1: classes: must be a mapping, not 5") {
		t.Errorf("the folder has a wrong file, but the error is %v", err)
	}
	if len(all) != 3 {
		t.Errorf("the folder has %d scenarios, want 3", len(all))
	}
}
