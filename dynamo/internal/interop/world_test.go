package interop

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// noon is the time at which worlds begin: a whole second, so that both libraries
// round it alike.
var noon = time.Date(2027, time.January, 15, 12, 0, 0, 0, time.UTC)

// world is a table that several programs share. Only the test moves its clock.
// The StoredTable belongs to the first program, whose requests can be
// intercepted.
type world struct {
	*dynamotest.StoredTable
	ours  goProgram // uses StoredTable.Wire
	clock *worldClock
}

// worldClock is the clock of all programs. Other programs may be ahead of ours.
type worldClock struct {
	now   time.Time
	ahead time.Duration
	peers []*peer
}

func newWorld(t *testing.T, opts *dynamo.Options) *world {
	t.Helper()
	return openWorld(t, dynamotest.NewTable(t), opts)
}

// openWorld returns a world on an existing table.
func openWorld(t *testing.T, table string, opts *dynamo.Options) *world {
	t.Helper()
	w := &world{StoredTable: dynamotest.OpenStoredTable(t, table, opts), clock: &worldClock{now: noon}}
	w.ours = w.newGo(w.Repo, func() time.Time { return w.clock.now })
	return w
}

// newGo returns a Go program.
func (w *world) newGo(repo limiter.Repository, now func() time.Time) goProgram {
	w.Helper()
	lim, err := limiter.New(repo, &limiter.Options{Now: now})
	w.Must(err)
	return goProgram{T: w.T, lim: lim}
}

// anotherGo connects another Go process.
func (w *world) anotherGo(opts *dynamo.Options) goProgram {
	w.Helper()
	return w.newGo(dynamotest.Connect(w.T, w.TableName, opts), func() time.Time {
		return w.clock.now.Add(w.clock.ahead)
	})
}

// openPython opens the table in a Python process. It does not cache limits,
// unless the settings say otherwise.
func (w *world) openPython(p *peer, settings map[string]any) pyProgram {
	w.Helper()
	w.clock.peers = append(w.clock.peers, p)
	w.wait(0)
	all := map[string]any{"auto_update": false, "config_cache_ttl": 0}
	maps.Copy(all, settings)
	return pyProgram{T: w.T, repo: p.mustOpen(w.T, w.TableName, "default", all)}
}

// wait moves the clock.
func (w *world) wait(d time.Duration) {
	w.Helper()
	w.clock.now = w.clock.now.Add(d)
	for _, p := range w.clock.peers {
		p.freeze(w.T, w.clock.now.Add(w.clock.ahead))
	}
}

// checkTokens checks the stored tokens of an entity's bucket: thousandths by
// limit.
func (w *world) checkTokens(entity string, want map[string]int64) {
	w.Helper()
	got := map[string]int64{}
	for name, v := range w.bucket(entity) {
		if limit, ok := tokensLimit(name); ok {
			got[limit] = parseNumber(w.T, v)
		}
	}
	w.Equal("tokens of "+entity, got, want)
}

// bucket returns the item of an entity's bucket for gpt-4.
func (w *world) bucket(entity string) map[string]types.AttributeValue {
	w.Helper()
	return w.Item("{ns}/ENTITY#"+entity, "#BUCKET#gpt-4")
}

// dropBucket deletes a bucket as TTL does.
func (w *world) dropBucket(entity string) {
	w.Helper()
	w.DeleteItem("{ns}/ENTITY#"+entity, "#BUCKET#gpt-4")
}

// checkNoBucket checks that a bucket does not exist.
func (w *world) checkNoBucket(entity string) {
	w.Helper()
	w.CheckNoItem("{ns}/ENTITY#"+entity, "#BUCKET#gpt-4")
}

// eachOther runs a test with another program of each language. It skips Python
// where the library is missing.
func eachOther(t *testing.T, opts *dynamo.Options, test func(w *world, other program)) {
	t.Helper()
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, opts)
		test(w, w.anotherGo(opts))
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		p := startPython(t)
		w := newWorld(t, opts)
		test(w, w.openPython(p, nil))
	})
}

// eachTable runs a test on a table that Go created and on one that Python
// created.
func eachTable(t *testing.T, test func(w *world, py pyProgram)) {
	t.Helper()
	t.Parallel()
	p := startPython(t)
	t.Run("table of Go", func(t *testing.T) {
		w := newWorld(t, &exactOptions)
		test(w, w.openPython(p, nil))
	})
	t.Run("table of Python", func(t *testing.T) {
		w := openWorld(t, newPythonTable(t, p), &exactOptions)
		test(w, w.openPython(p, nil))
	})
}

// newPythonTable creates a table and registers the default namespace as a Python
// program without a stack does.
func newPythonTable(t *testing.T, p *peer) string {
	t.Helper()
	name := dynamotest.TableName(t)
	p.createTable(t, name)
	var id string
	p.must(t, "register_namespace", map[string]any{"stack": name, "namespace": "default"}, &id)
	if id == "" {
		t.Fatal("the namespace has no id")
	}
	return name
}

// put stores an item as another program would.
func (w *world) put(it map[string]types.AttributeValue) {
	w.Helper()
	_, err := w.Client.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: &w.TableName, Item: it})
	w.Must(err)
}
