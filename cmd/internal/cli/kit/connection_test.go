package kit

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
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

func TestMendNamesStoreAndNamespace(t *testing.T) {
	missing := &hint.NoLimitsError{Entity: "key", Resource: "m", Err: limiter.ErrNoLimits}
	inTenant := *missing
	inTenant.Namespace = "tenant"
	const begin = "there are no limits for entity key and resource m at any level; "
	plain := errors.New("disk full")
	for _, test := range []struct {
		conn Connection
		err  error
		want string
	}{
		{
			Connection{Store: "sqlite:l.db"},
			missing,
			begin + "`zae-limiter resource set-defaults m -l rpm:100 --store sqlite:l.db` sets some",
		},
		{
			Connection{Store: "sqlite:l.db", Namespace: "own"},
			missing,
			begin + "`zae-limiter resource set-defaults m -l rpm:100 --namespace own --store sqlite:l.db` sets some",
		},
		{
			Connection{Store: "sqlite:l.db", Namespace: "own"},
			&inTenant,
			begin + "`zae-limiter resource set-defaults m -l rpm:100 --namespace tenant --store sqlite:l.db` sets some",
		},
		{Connection{Store: "memory:"}, missing, begin + "store some, such as defaults of the resource"},
		{Connection{Store: "sqlite:l.db"}, plain, "disk full"},
	} {
		if got := test.conn.Mend(test.err).Error(); got != test.want {
			t.Errorf("%q\nwant %q", got, test.want)
		}
	}
}
