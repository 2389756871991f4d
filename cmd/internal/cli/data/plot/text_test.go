package plot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	got := wrap([]string{"ab", "cd", "efghijk", "l"}, ", ", 6)
	if diff := cmp.Diff([]string{"ab, cd", "efghijk", "l"}, got); diff != "" {
		t.Error(diff)
	}
}
