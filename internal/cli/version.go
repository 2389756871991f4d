package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// version is set by the linker in releases and by make build:
// -X github.com/zeroae/zae-limiter-go/internal/cli.version=1.2.3
var version string

type versionOptions struct {
	*connection
	json bool
}

func newVersion(c *console) *cobra.Command {
	o := versionOptions{connection: &connection{console: c}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which version this is, and that of a store",
		Long: `Shows the version of the program, of the Go it was built with, and its platform.
With --store or --name also the version of that store.`,
		Example: "  zae-limiter version\n  zae-limiter version --json\n  zae-limiter version --name my-app",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), o) },
	}
	o.addStore(cmd)
	addJSON[versionShape](cmd, &o.json, anObject, nil)
	return cmd
}

// versionShape is what version shows as JSON.
type versionShape struct {
	build
	Store *storeShape `json:"store,omitempty" doc:"only with --store or --name: url, schema, client_min, lambda, updated_at and updated_by"`
}

// storeShape is the version of a store as JSON.
type storeShape struct {
	URL       string     `json:"url"`
	Schema    string     `json:"schema"`
	ClientMin *string    `json:"client_min"`
	Lambda    *string    `json:"lambda"`
	UpdatedAt *time.Time `json:"updated_at"`
	UpdatedBy *string    `json:"updated_by"`
}

// build is what version shows, and its JSON shape.
type build struct {
	Version string `json:"version" doc:"of the program"`
	Go      string `json:"go" doc:"it was built with"`
	OS      string `json:"os" doc:"it was built for"`
	Arch    string `json:"arch" doc:"it was built for"`
}

func (b build) String() string {
	return fmt.Sprintf("zae-limiter %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return build{versionOf(version, info), runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

func runVersion(ctx context.Context, o versionOptions) error {
	if o.store == "" && o.name == "" && o.region+o.endpoint != "" {
		return usagef("--region and --endpoint-url belong to a DynamoDB table; name one with --name")
	}
	shape := versionShape{build: thisBuild()}
	if o.store != "" || o.name != "" {
		about, err := o.storeVersion(ctx)
		if err != nil {
			return err
		}
		shape.Store = &about
	}
	if o.json {
		return o.printJSON(shape)
	}
	if _, err := fmt.Fprintln(o.out, shape.build); err != nil || shape.Store == nil {
		return err
	}
	return printFacts(o.console, false, shape.Store.facts(), nil)
}

// storeVersion is what the store says about itself. Opening it has shown that
// this program may use it.
func (o versionOptions) storeVersion(ctx context.Context) (about storeShape, err error) {
	s, err := o.chosen()
	if err != nil {
		return storeShape{}, err
	}
	about = storeShape{URL: s.name, Schema: "none"}
	repo, err := o.openStore(ctx, s, opening{access: reads})
	if err != nil {
		return storeShape{}, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	switch r := repo.(type) {
	case *sqlite.Repository:
		about.Schema = strconv.Itoa(r.SchemaVersion())
	case *dynamo.Repository:
		v, err := r.Version(ctx)
		if err != nil && !errors.Is(err, limiter.ErrNotFound) {
			return storeShape{}, err
		}
		about.Schema = cmp.Or(v.Schema, about.Schema)
		about.ClientMin, about.Lambda, about.UpdatedAt, about.UpdatedBy = orNull(v.ClientMin), orNull(v.Lambda), timeOrNull(v.UpdatedAt), orNull(v.UpdatedBy)
	}
	return about, nil
}

func (s *storeShape) facts() []fact {
	facts := []fact{{"store", text(s.URL)}, {"schema", text(s.Schema)}}
	for _, f := range []struct {
		name  string
		value *string
	}{{"client_min", s.ClientMin}, {"lambda", s.Lambda}, {"updated_by", s.UpdatedBy}} {
		if f.value != nil {
			facts = append(facts, fact{f.name, text(*f.value)})
		}
	}
	if s.UpdatedAt != nil {
		facts = append(facts, fact{"updated_at", moment(*s.UpdatedAt)})
	}
	return facts
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
