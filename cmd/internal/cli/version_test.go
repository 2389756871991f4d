package cli_test

import (
	"runtime/debug"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
)

func TestVersionOf(t *testing.T) {
	built := func(module string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: module}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		name, linked string
		info         *debug.BuildInfo
		want         string
	}{
		{"release", "1.2.3", built("v9.9.9"), "1.2.3"},
		{"go install", "", built("v1.2.3"), "1.2.3"},
		{"go build", "", built("(devel)", "vcs.revision", "abc", "vcs.modified", "false"), "abc"},
		{"go build with changes", "", built("", "vcs.revision", "abc", "vcs.modified", "true"), "abc+dirty"},
		{"go run", "", built("(devel)"), "devel"},
		{"no build info", "", nil, "devel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cli.VersionOf(c.linked, c.info); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
