package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// newEvent returns a server-sent event. Its data fit one line, since json.Marshal
// writes no line breaks.
func newEvent(name string, data any) []byte {
	body, _ := json.Marshal(data) //nolint:errchkjson // the types of this package have nothing that JSON cannot hold
	return []byte("event: " + name + "\ndata: " + string(body) + "\n\n")
}

// rowsEvent collects rows that changed.
type rowsEvent struct {
	at   time.Time
	rows [][]byte
	gone [][2]string
}

func newRowsEvent(at time.Time) *rowsEvent { return &rowsEvent{at: at, gone: [][2]string{}} }

// add adds a row, or a bucket that does not exist if row is nil.
func (e *rowsEvent) add(key limiter.Scope, row []byte) {
	if row == nil {
		e.gone = append(e.gone, [2]string{key.Entity, key.Resource})
		return
	}
	e.rows = append(e.rows, row)
}

func (e *rowsEvent) empty() bool { return len(e.rows) == 0 && len(e.gone) == 0 }

// bytes returns the event. The rows are JSON already.
func (e *rowsEvent) bytes() []byte {
	all := append(append([]byte{'['}, bytes.Join(e.rows, []byte{','})...), ']')

	return newEvent("rows", struct {
		Rows json.RawMessage `json:"rows"`
		Gone [][2]string     `json:"gone"`
		At   time.Time       `json:"at"`
	}{all, e.gone, e.at.UTC()})
}

func compareScopes(a, b limiter.Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
}
