package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// A message shows only the start of an argument of 100 KB.
func TestLongArgumentsAreNotEchoed(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	for _, letters := range []string{"x", "x ", "ü"} {
		long := strings.Repeat(letters, 100_000/len(letters))
		for _, args := range [][]string{
			{long},
			{"entity", long},
			{"entity", "list", "--" + long},
			{"entity", "list", long},
			{"entity", "list", "--limit", long},
			{"entity", "list", "--json=" + long},
			{"entity", "list", "--namespace", long},
			{"entity", "list", "--store", long},
			{"entity", "list", "--store", "sqlite:" + long},
			{"entity", "list", "--name", long},
			{"entity", "list", "--name", "table", "--endpoint-url", long},
			{"entity", "show", "a", long},
			{"entity", "show", long},
			{"entity", "create", "a", "--metadata", long},
			{"entity", "create", "a", "--metadata", "k=" + long, "--metadata", "k=other"},
			{"entity", "create", "a", "--parent", long},
			{"entity", "create", "a", "--principal", long},
			{"entity", "create", "a", "--principal", "arn:" + long},
			{"entity", "set-limits", "a", "-l", long},
			{"entity", "set-limits", "a", "-l", "rpm:" + long},
			{"entity", "set-limits", "a", "-l", "rpm:1:" + long},
			{"entity", "set-limits", "a", "-l", long + ":1"},
			{"entity", "set-limits", "a", "-r", long, "-l", "rpm:1"},
			{"entity", "list", "--with-custom-limits", long},
			{"resource", "get-defaults", long},
			{"namespace", "register", long},
			{"namespace", "show", long},
			{"namespace", "delete", long, "--yes"},
			{"namespace", "recover", long},
			{"namespace", "purge", long, "--yes"},
			{"acquire", "a", "b", long},
			{"acquire", "a", "b", "rpm=" + long},
			{"acquire", "a", "b", "rpm=1", "--wait", long},
			{"usage", "list", "-e", long},
			{"usage", "list", "-e", "a", "--after", long},
			{"usage", "list", "-e", "a", "--start", long},
			{"audit", "list", "-r", long},
			{"audit", "list", "-e", "a", "--start-event-id", long},
			{"demo", "--duration", long},
			{"demo", "--store", long},
			{"completion", long},
			{"limits", "validate", long},
			{"help", long},
		} {
			var out, talk bytes.Buffer
			c := &kit.Console{In: strings.NewReader(""), Out: &out, Err: &talk, Now: time.Now}
			t.Setenv(kit.EnvStore, store)
			code := cli.Run(context.Background(), c, args)
			if code == kit.ExitDone || talk.Len() == 0 || talk.Len() > 4_000 || out.Len() > 4_000 {
				t.Errorf("%.40q: code %d, %d bytes on stderr and %d on stdout: %.300s", args, code, talk.Len(),
					out.Len(), &talk)
			}
		}
	}
}
