package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestInteropVersionRecordIsLeftAlone: a Python program that finds a record it
// takes for older than itself replaces the table's function, and writes the
// record anew. It must not find ours so; nor do we touch its record.
func TestInteropVersionRecordIsLeftAlone(t *testing.T) {
	t.Run("of Go", func(t *testing.T) {
		t.Parallel()
		p := python(t)
		w := newWorld(t, nil)
		before := dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION"))
		w.Equal("record", len(before), 9)
		for _, update := range []bool{true, false} {
			py := w.pyElse(p, map[string]any{"auto_update": update})
			var record map[string]any
			py.call("get_version_record", nil, &record)
			w.Equal("schema version", record["schema_version"], any("0.8.0"))
			w.Equal("record", dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION")), before)
		}
	})
	t.Run("of Python", func(t *testing.T) {
		t.Parallel()
		p := python(t)
		table := tableOfPython(t, p)
		p.mustOpen(t, table, "default", map[string]any{"auto_update": false}) // writes the record
		w := worldOn(t, table, nil)
		before := dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION"))
		w.Equal("record", len(before), 9)
		w.goElse(nil)
		w.Must(dynamo.CreateTable(t.Context(), table, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}))
		w.Equal("record", dynamotest.FormatItem(w.Item("_/SYSTEM#", "#VERSION")), before)
	})
}
