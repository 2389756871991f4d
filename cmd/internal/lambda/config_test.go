package lambda

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	all := []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}
	for name, c := range map[string]struct {
		env  map[string]string
		want config
	}{
		"nothing set": {nil, config{table: "rate-limits", windows: all, retention: 90 * day}},
		"spaces, and the other language's levels": {
			map[string]string{
				"TABLE_NAME": " limits ", "SNAPSHOT_WINDOWS": " hourly, daily ", "SNAPSHOT_TTL_DAYS": " 7 ",
				"LOG_LEVEL": "warning",
			},
			config{table: "limits", windows: all[:2], retention: 7 * day, level: 4},
		},
		"an archive": {
			map[string]string{"ENABLE_ARCHIVAL": "TRUE", "ARCHIVE_BUCKET_NAME": " my-bucket "},
			config{table: "rate-limits", windows: all, retention: 90 * day, bucket: "my-bucket"},
		},
		"a bucket without an archive": {
			map[string]string{"ENABLE_ARCHIVAL": "false", "ARCHIVE_BUCKET_NAME": "my-bucket"},
			config{table: "rate-limits", windows: all, retention: 90 * day},
		},
	} {
		got, err := readConfig(func(name string) string { return c.env[name] })
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(config{})); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for name, value := range map[string]string{
		"SNAPSHOT_WINDOWS": "hourly,weekly", "SNAPSHOT_TTL_DAYS": "0", "LOG_LEVEL": "LOUD",
	} {
		_, err := readConfig(func(n string) string { return map[string]string{name: value}[n] })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	var out strings.Builder
	if code := Main(func(string) string { return "?" }, &out); code != 1 || out.Len() == 0 {
		t.Errorf("exit code %d, %q", code, &out)
	}
}
