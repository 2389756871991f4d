package infra_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// operation is something that users of the library do.
type operation struct {
	name string // begins with that of the method
	may  string // the tiers whose work it is
	run  func(w *world)
}

// Whose work an operation may be.
const (
	acquiring     = "acq full ns-acq ns-full"
	reading       = "acq full read ns-acq ns-full ns-read"
	listing       = "full read ns-full ns-read"
	managing      = "full ns-full"
	administering = "full"
	applying      = " prov" // besides others
)

// operations are all of the port, and what the programs of this module do
// besides.
func operations() []operation {
	return slices.Concat(bucketOperations(), entityOperations(), configOperations(), namespaceOperations(), historyOperations(), tableOperations())
}

// silent are the methods that send nothing.
var silent = []string{"Close", "OnUnavailable"}

func TestOperationsAreAllOfThePort(t *testing.T) {
	for port := range reflect.TypeFor[limiter.Repository]().Methods() {
		name := port.Name
		tried := slices.ContainsFunc(operations(), func(o operation) bool {
			method, _, _ := strings.Cut(o.name, ":")
			return method == name
		})
		if tried == slices.Contains(silent, name) {
			t.Errorf("%s: tried %t", name, tried)
		}
	}
}

const recordedCalls = "testdata/calls.txt"

// The policies are judged by recorded calls. They have to be those that the
// library makes now; -update records them again.
func TestCallsAreUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recorded := calls{}
	for _, o := range operations() {
		if recorded[o.name] = w.record(o); len(recorded[o.name]) == 0 {
			t.Errorf("%s sends nothing", o.name)
		}
	}
	golden.Check(t, recordedCalls, recorded.String())
}
