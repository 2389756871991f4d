package dynamotest

import (
	"regexp"
	"strings"
	"testing"
)

func TestTableNamesAreValidAndUnique(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,54}$`)
	t.Run("ünusual/name_"+strings.Repeat("x", 99), func(t *testing.T) {
		a, b := TableName(t), TableName(t)
		if a == b || !valid.MatchString(a) || !valid.MatchString(b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

func TestLeftGoroutinesAreNoticed(t *testing.T) {
	before := goroutines()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { <-end; close(ended) }()
	if left := newGoroutines(before); len(left) != 1 || !strings.Contains(left[0], t.Name()) {
		t.Errorf("it noticed %q", left)
	}
	close(end)
	<-ended
	until(t.Context(), func() bool { return len(newGoroutines(before)) == 0 })
}
