package kit

import (
	"io"
	"strings"
	"testing"
)

// In AWS the table looks up the caller's identity; elsewhere only the user of this
// machine is known.
func TestAuthor(t *testing.T) {
	for _, c := range []struct {
		store, endpoint, variable, principal string
		want                                 string
	}{
		{"dynamodb:table", "", "", "", ""},
		{"dynamodb:table", "", "", "ada", "ada"},
		{"dynamodb:table", "http://localhost:8000", "", "", login()},
		{"dynamodb:table", "", "AWS_ENDPOINT_URL", "", login()},
		{"dynamodb:table", "", "AWS_ENDPOINT_URL_DYNAMODB", "", login()},
		{"dynamodb:table", "", "AWS_ENDPOINT_URL_DYNAMODB", "ada", "ada"},
		{"sqlite:limits.db", "", "", "", login()},
		{"memory:", "", "", "ada", "ada"},
	} {
		t.Run("", func(t *testing.T) {
			if c.variable != "" {
				t.Setenv(c.variable, "http://localhost:8000")
			}
			conn := &Connection{
				Console: NewConsole(strings.NewReader(""), io.Discard, io.Discard), Store: c.store,
				Endpoint: c.endpoint, Principal: c.principal,
			}
			if got := conn.Author(); got != c.want {
				t.Errorf("%+v: %q", c, got)
			}
		})
	}
}
