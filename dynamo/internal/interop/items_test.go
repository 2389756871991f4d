package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

var eventIDs = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)

// dumpNamespace returns all items of the table that mention a namespace as text,
// sorted by key. An attribute is a line. Placeholders replace the name and ID of
// the namespace and event IDs. The identity of a bucket and the generation of an
// entity, which only Go stores, are left out.
func (w *world) dumpNamespace(name, id string) string {
	w.Helper()
	out, err := w.Client.Scan(w.Context(), &dynamodb.ScanInput{TableName: &w.TableName, ConsistentRead: aws.Bool(true)})
	w.Must(err)
	var items []string
	for _, it := range out.Items {
		delete(it, "_id")
		delete(it, "_gen")
		text := strings.Join(dynamotest.FormatItem(it), "\n  ")
		if strings.Contains(text, id) {
			text = strings.ReplaceAll(text, id, "{ns}")
			text = strings.ReplaceAll(text, name, "{name}")
			items = append(items, eventIDs.ReplaceAllString(text, "{event}"))
		}
	}
	slices.SortFunc(items, func(a, b string) int { return strings.Compare(keyLines(a), keyLines(b)) })
	return strings.Join(items, "\n")
}

func keyLines(text string) string {
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "PK ") || strings.HasPrefix(line, "SK ") ||
			strings.HasPrefix(line, "action ") {
			keys = append(keys, line)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, "\n") + text
}

// TestInteropItemsAreTheSame runs the same history with each library in a
// namespace of its own and compares the stored items after every step.
func TestInteropItemsAreTheSame(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := newWorld(t, &exactOptions)
	w.clock.peers = []*peer{p}
	w.wait(0)
	w.ours.register("by-go")
	byGo := w.anotherGo(&dynamo.Options{Namespace: "by-go", Exact: true})
	byPython := pyProgram{
		t, p.mustOpen(t, w.TableName, "by-python", map[string]any{"auto_update": false, "config_cache_ttl": 0}),
	}
	for i, step := range history() {
		step(byGo)
		step(byPython)
		goID, pythonID := byGo.register("by-go"), byPython.register("by-python")
		w.Equal(fmt.Sprint("items after step ", i), w.dumpNamespace("by-go", goID),
			w.dumpNamespace("by-python", pythonID))
		if t.Failed() {
			return
		}
	}
}

// history returns steps that store every kind of item.
func history() []func(program) {
	limits := []limiter.Limit{limiter.PerMinute("rpm", 100), limiter.Custom("tokens_out", 15_000, 10_000, 60e9)}
	own, all := limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.Scope{Entity: "alice"}
	return []func(program){
		func(p program) { p.create(limiter.Entity{ID: "plain"}) },
		func(p program) {
			p.create(limiter.Entity{
				ID: "alice", Name: "Alice", Parent: "plain", Cascade: true,
				Metadata: map[string]string{"tier": "gold", "note": ""},
			})
		},
		func(p program) { p.create(limiter.Entity{ID: "bob", Parent: "plain"}) },
		func(p program) { p.set(limiter.Scope{}, limits...) },
		func(p program) { p.take("alice", "gpt-4", rpm(10)) },
		func(p program) { p.take("bob", "openai/gpt-4", rpm(1).And("tokens_out", 200)) },
		func(p program) { p.take("nobody", "gpt-4", rpm(101)) },
		func(p program) { p.take("nobody", "gpt-4", rpm(2)) },
		func(p program) {
			p.hold("alice", "gpt-4", rpm(5).And("tokens_out", 100)).commit(limiter.Tokens("tokens_out", 20_000))
		},
		func(p program) { p.hold("bob", "openai/gpt-4", rpm(5)).rollback() },
		func(p program) { p.set(limiter.Scope{Resource: "openai/gpt-4"}, limits[0]) },
		func(p program) { p.set(limiter.Scope{Resource: "img"}, limits...) },
		func(p program) { p.set(all, limits...) },
		func(p program) { p.set(own, limits...) },
		func(p program) { p.take("alice", "gpt-4", rpm(1)) },
		func(p program) { p.set(limiter.Scope{Entity: "bob", Resource: "gpt-4"}, limits[1]) },
		func(p program) { p.unset(own) },
		func(p program) { p.unset(all) },
		func(p program) { p.unset(limiter.Scope{Resource: "img"}) },
		func(p program) { p.unset(limiter.Scope{Resource: "openai/gpt-4"}) },
		func(p program) { p.set(limiter.Scope{}, limits[0]) }, // Python lists deleted names in any order
		func(p program) { p.unset(limiter.Scope{}) },
		func(p program) { p.remove("nobody") },
		func(p program) { p.remove("alice") },
	}
}

// TestInteropVersionRecordIsLeftAlone checks that neither library rewrites the
// version record of the other. A Python program that reads an older version
// replaces the table's function and the record.
func TestInteropVersionRecordIsLeftAlone(t *testing.T) {
	t.Run("of Go", func(t *testing.T) {
		t.Parallel()
		p := startPython(t)
		w := newWorld(t, nil)
		before := dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION"))
		w.Equal("record", len(before), 9)
		for _, update := range []bool{true, false} {
			py := w.openPython(p, map[string]any{"auto_update": update})
			var record map[string]any
			py.call("get_version_record", nil, &record)
			w.Equal("schema version", record["schema_version"], any("0.8.0"))
			w.Equal("record", dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION")), before)
		}
	})
	t.Run("of Python", func(t *testing.T) {
		t.Parallel()
		p := startPython(t)
		table := newPythonTable(t, p)
		p.mustOpen(t, table, "default", map[string]any{"auto_update": false}) // writes the record
		w := openWorld(t, table, nil)
		before := dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION"))
		w.Equal("record", len(before), 9)
		w.anotherGo(nil)
		w.Must(dynamo.CreateTable(t.Context(), table, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}))
		w.Equal("record", dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION")), before)
	})
}
