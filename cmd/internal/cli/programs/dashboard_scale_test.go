package programs_test

import (
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// fewBuckets shows what grows with the number of buckets. make scale
// checks time and memory with a million.
const fewBuckets = 4_000

var manyBuckets = flag.Int("dashboard.buckets", fewBuckets,
	"`number` of buckets in TestDashboardOfManyBuckets, which beyond the default checks time and memory")

// fillStore writes a file with n buckets: keys of teams with two resources each.
// It copies one bucket of the program in the database, since a million charges
// take minutes.
func fillStore(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.db")
	store := "sqlite:" + path
	zael(t, "system", "set-defaults", "-l", "rpd:1000/day", "--store", store)
	zael(t, "entity", "create", "team", "--store", store)
	zael(t, "entity", "create", "key", "--name", "Key", "--parent", "team", "--store", store)
	zael(t, "acquire", "key", "gpt-4", "rpd=1", "--store", store)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const series = `WITH RECURSIVE series (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < ?) `
	for _, statement := range []string{
		series + `INSERT INTO entities (ns, id, name, parent, cascade, metadata, created)
			SELECT ns, printf('key-%07d', n), printf('Key %d', n), parent, cascade, metadata, created FROM series, entities WHERE id = 'key'`,
		series + `INSERT INTO buckets_v7 (ns, entity, resource, facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled)
			SELECT ns, printf('key-%07d', n), r.name, facts, b.parent, limits, level, printf('[%d]', 1000 * (n * 7919 % 1000)), at, idle, expires, hour, used, events, pulled
			FROM series, (SELECT 'gpt-4' AS name UNION SELECT 'gpt-5') AS r, buckets_v7 AS b WHERE entity = 'key'`,
	} {
		if _, err := db.ExecContext(t.Context(), statement, n/2); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// rows is what a test reads of an overview.
type rows struct {
	Rows []struct {
		Entity, Resource, Name, Parent string
		Limits                         []struct{ Available float64 }
	}
	Next    string
	Scanned int
	Done    bool
}

// overview returns an answer of the overview.
func (v viewer) overview(query string) rows {
	v.t.Helper()
	status, answer := v.call("api/overview?"+query, "")
	var o rows
	if err := json.Unmarshal([]byte(answer), &o); err != nil || status != http.StatusOK {
		v.t.Fatalf("%s: status %d, %v: %s", query, status, err, answer)
	}
	return o
}

// A page costs the same with any number of buckets, and the whole list is read
// without being kept.
func TestDashboardOfManyBuckets(t *testing.T) {
	store := fillStore(t, *manyBuckets)
	s := startDashboard(t, nil, "--store", store)
	s.login(s.token)
	begun := time.Now()
	if status, _ := s.call("", ""); status != http.StatusOK {
		t.Fatalf("the page: status %d", status)
	}
	first := s.overview("limit=100")
	opened := time.Since(begun)
	if len(first.Rows) != 100 || first.Next == "" || first.Done || first.Scanned > 200 ||
		first.Rows[1].Name != "Key 0" {
		t.Errorf("the first page has %d rows of %d scanned, next %q: %v", len(first.Rows), first.Scanned,
			first.Next, first.Rows[:2])
	}
	if next := s.overview("limit=100&after=" + first.Next); len(next.Rows) != 100 || next.Scanned > 200 ||
		next.Rows[0].Entity <= first.Rows[98].Entity {
		t.Errorf("the next page has %d rows of %d scanned", len(next.Rows), next.Scanned)
	}
	last := fmt.Sprintf("key-%07d", *manyBuckets/2-1)
	if found := s.overview("prefix=" + last); len(found.Rows) != 2 || !found.Done || found.Scanned > 10 {
		t.Errorf("the last key has %d rows of %d scanned", len(found.Rows), found.Scanned)
	}
	s.stream()
	scanned, searched := s.scanAll(), s.searchAll()
	s.scanResource()
	t.Logf("%d buckets: opened in %v, scanned in %v, searched in %v, %d MiB at most", *manyBuckets, opened, scanned,
		searched, peakMemory(t, s.cmd.Process.Pid))
	if *manyBuckets > fewBuckets {
		if opened > time.Second {
			t.Errorf("the page opened in %v, want a second at most", opened)
		}
		if peak := peakMemory(t, s.cmd.Process.Pid); peak >= 200 {
			t.Errorf("the program used %d MiB, want less than 200", peak)
		}
	}
	if code, _, said := s.interrupt(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// scanAll waits until the tightest buckets of all are known, and returns the time.
func (s *shown) scanAll() time.Duration {
	s.t.Helper()
	begun := time.Now()
	for {
		o := s.overview("order=tightest&limit=100")
		if o.Done {
			most := 1000*100/float64(*manyBuckets) + 10 // the buckets have 0 to 999 tokens, and refill a little
			if len(o.Rows) != 100 || o.Scanned != *manyBuckets+1 || o.Rows[99].Limits[0].Available > most {
				s.t.Errorf("the tightest are %d rows of %d scanned, up to %v", len(o.Rows), o.Scanned,
					o.Rows[99].Limits)
			}
			return time.Since(begun)
		}
		_ = pause.For(s.t.Context(), 100*time.Millisecond) // as the page does
	}
}

// scanResource waits until the capacity of a resource over all entities is known.
func (s *shown) scanResource() {
	s.t.Helper()
	for {
		status, answer := s.call("api/resource?name=gpt-5", "")
		var sum struct {
			Done    bool
			Scanned int
		}
		if err := json.Unmarshal([]byte(answer), &sum); err != nil || status != http.StatusOK {
			s.t.Fatalf("status %d, %v: %s", status, err, answer)
		}
		if sum.Done {
			if sum.Scanned != *manyBuckets/2 {
				s.t.Errorf("the resource has %d buckets", sum.Scanned)
			}
			return
		}
		_ = pause.For(s.t.Context(), 100*time.Millisecond)
	}
}

// searchAll searches all buckets for a text that is not there, and returns the
// time.
func (s *shown) searchAll() time.Duration {
	s.t.Helper()
	begun := time.Now()
	after, n := "", 0
	for {
		o := s.overview("search=absent&after=" + after)
		if n += o.Scanned; o.Done {
			break
		}
		after = o.Next
	}
	if n != *manyBuckets+1 {
		s.t.Errorf("a search scanned %d buckets", n)
	}
	return time.Since(begun)
}

// peakMemory returns the most memory that a process had, in MiB, or 0 where the
// system does not say.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(text))
	if match == nil {
		t.Fatalf("no peak in %s", strings.ReplaceAll(string(text), "\n", "; "))
	}
	kib, _ := strconv.Atoi(match[1])
	return kib >> 10
}
