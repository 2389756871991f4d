package jsonview_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type described struct {
	Short string `json:"short" doc:"in the tag"`
	Long  string `json:"long,omitempty"`
	Bare  string `json:"bare"`
}

func (described) FieldDocs() map[string]string { return map[string]string{"long": "in the method"} }

// TestDocReadsTagsAndTheMethod reads the texts of a struct, and of one that embeds it
// and so has its method.
func TestDocReadsTagsAndTheMethod(t *testing.T) {
	type outer struct {
		described
		Own string `json:"own" doc:"of the outer struct"`
	}

	for _, c := range []struct {
		of   reflect.Type
		want map[string]string
	}{
		{reflect.TypeFor[described](), map[string]string{"Short": "in the tag", "Long": "in the method", "Bare": ""}},
		{reflect.TypeFor[outer](), map[string]string{"described": "", "Own": "of the outer struct"}},
	} {
		got := map[string]string{}
		for f := range c.of.Fields() {
			got[f.Name] = jsonview.Doc(c.of, f)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.of, diff)
		}
	}
}
