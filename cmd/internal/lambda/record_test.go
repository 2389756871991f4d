package lambda

import (
	"encoding/json"
	"os"
	"testing"
)

// FuzzRecord checks that any record is either rejected or complete.
func FuzzRecord(f *testing.F) {
	for _, name := range []string{"stream.json", "poison.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		var e event
		if err := json.Unmarshal(text, &e); err != nil {
			f.Fatal(err)
		}
		for _, r := range e.Records {
			f.Add([]byte(r))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseRecord(raw)
		if err != nil {
			return
		}
		c, reason, ok := r.Change()
		if ok && (reason != "" || c.At.IsZero() || c.Bucket.Namespace == "" && c.Bucket.Entity == "" ||
			len(c.Position.Number) != 40 || len(c.Used) == 0) {
			t.Errorf("%s is taken for %+v", raw, c)
		}
		if _, reason, ok := r.Removed(); ok && reason != "" {
			t.Errorf("%s is archived though %s", raw, reason)
		}
	})
}
