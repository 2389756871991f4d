package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases and by make build:
// -X github.com/zeroae/zae-limiter-go/internal/cli.version=1.2.3
var version string

type versionOptions struct {
	out  io.Writer
	json bool
}

func newVersion() *cobra.Command {
	var o versionOptions
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show which version this is",
		Long:    "Shows the version of the program, of the Go it was built with, and its platform.",
		Example: "  zae-limiter version\n  zae-limiter version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.out = cmd.OutOrStdout()
			return runVersion(o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print an object with version, go, os and arch")
	return cmd
}

// build is what version shows, and its JSON shape.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (b build) String() string {
	return fmt.Sprintf("zae-limiter %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return build{versionOf(version, info), runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

func runVersion(o versionOptions) error {
	b := thisBuild()
	if o.json {
		return json.NewEncoder(o.out).Encode(b)
	}
	_, err := fmt.Fprintln(o.out, b)
	return err
}

// versionOf is what the linker set, else the version of the module, else the
// revision it was built from, else "devel".
func versionOf(linked string, info *debug.BuildInfo) string {
	if linked != "" {
		return linked
	}
	if info == nil {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	switch {
	case revision == "":
		return "devel"
	case settings["vcs.modified"] == "true":
		return revision + "+dirty"
	}
	return revision
}
