package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// TestInteropVersionRecordIsLeftAlone: a Python program that finds a record it
// takes for older than itself replaces the table's function, and writes the
// record anew. It must not find ours so; nor do we touch its record.
func TestInteropVersionRecordIsLeftAlone(t *testing.T) {
	t.Run("of Go", func(t *testing.T) {
		t.Parallel()
		p := python(t)
		w := newWorld(t, nil)
		before := attributeLines(w.item("_/SYSTEM#", "#VERSION"))
		w.equal("record", len(before), 9)
		for _, update := range []bool{true, false} {
			py := w.pyElse(p, map[string]any{"auto_update": update})
			var record map[string]any
			py.call("get_version_record", nil, &record)
			w.equal("schema version", record["schema_version"], any("0.8.0"))
			w.equal("record", attributeLines(w.item("_/SYSTEM#", "#VERSION")), before)
		}
	})
	t.Run("of Python", func(t *testing.T) {
		t.Parallel()
		p := python(t)
		table := tableOfPython(t, p)
		p.mustOpen(t, table, "default", map[string]any{"auto_update": false}) // writes the record
		w := worldOn(t, table, nil)
		before := attributeLines(w.item("_/SYSTEM#", "#VERSION"))
		w.equal("record", len(before), 9)
		w.goElse(nil)
		w.ok(dynamo.CreateTable(t.Context(), table, &dynamo.Options{AWS: awsConfig(engine(t))}))
		w.equal("record", attributeLines(w.item("_/SYSTEM#", "#VERSION")), before)
	})
}
