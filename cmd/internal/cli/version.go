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
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// version is set by the linker in releases and by make build:
// -X github.com/zeroae/zae-limiter-go/cmd/internal/cli.version=1.2.3
var version string

type versionOptions struct {
	*kit.Connection
	json bool
}

func newVersion(c *kit.Console) *cobra.Command {
	o := versionOptions{Connection: &kit.Connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of the program, or of a store",
		Long: `Show the version of the program, its Go version and its platform. With --store
or --name, also show the version of that store.`,
		Example: "  zae-limiter version\n  zae-limiter version --json\n  zae-limiter version --name my-app",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), o) },
	}

	o.AddStore(cmd)
	kit.AddJSON[versionJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// versionJSON is the output of version as JSON.
type versionJSON struct {
	build
	Store *storeJSON `json:"store,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (versionJSON) FieldDocs() map[string]string {
	return map[string]string{
		"store": "only with --store or --name: url, schema, client_min, lambda, updated_at and updated_by",
	}
}

// storeJSON is the version of a store as JSON.
type storeJSON struct {
	URL       string     `json:"url"`
	Schema    string     `json:"schema"`
	ClientMin *string    `json:"client_min"`
	Lambda    *string    `json:"lambda"`
	UpdatedAt *time.Time `json:"updated_at"`
	UpdatedBy *string    `json:"updated_by"`
}

// build describes this program.
type build struct {
	Version string `json:"version" doc:"version of the program"`
	Go      string `json:"go" doc:"Go version it was built with"`
	OS      string `json:"os" doc:"operating system it was built for"`
	Arch    string `json:"arch" doc:"architecture it was built for"`
}

func (b build) String() string {
	return fmt.Sprintf("zae-limiter %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return build{versionOf(version, info), runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

func runVersion(ctx context.Context, o versionOptions) error {
	if o.Store == "" && o.Name == "" && o.Region+o.Endpoint != "" {
		return kit.Usagef("--region and --endpoint-url belong to a DynamoDB table; name one with --name")
	}

	// Without a flag the command opens no store, not even the one of the user.
	shape := versionJSON{build: thisBuild()}
	if o.Store != "" || o.Name != "" {
		about, err := o.storeVersion(ctx)
		if err != nil {
			return err
		}
		shape.Store = &about
	}

	if o.json {
		return o.PrintJSON(shape)
	}

	if _, err := fmt.Fprintln(o.Out, shape.build); err != nil || shape.Store == nil {
		return err
	}

	return kit.PrintProperties(o.Console, false, shape.Store.properties(), nil)
}

// storeVersion reads the version of the store. Opening the store checks that this
// program may use it.
func (o versionOptions) storeVersion(ctx context.Context) (about storeJSON, err error) {
	s, err := o.SelectStore()
	if err != nil {
		return storeJSON{}, err
	}

	// A store in memory has no schema.
	about = storeJSON{URL: s.Name, Schema: "none"}
	repo, err := o.OpenStore(ctx, s, kit.OpenOptions{Access: kit.Read})
	if err != nil {
		return storeJSON{}, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	switch r := repo.(type) {
	case *sqlite.Repository:
		about.Schema = strconv.Itoa(r.SchemaVersion())
	case *dynamo.Repository:
		v, err := r.Version(ctx)
		// A table may be older than version records.
		if err != nil && !errors.Is(err, limiter.ErrNotFound) {
			return storeJSON{}, err
		}
		about.Schema = cmp.Or(v.Schema, about.Schema)
		about.ClientMin, about.Lambda, about.UpdatedAt, about.UpdatedBy = jsonview.OrNull(v.ClientMin),
			jsonview.OrNull(v.Lambda), jsonview.TimeOrNull(v.UpdatedAt), jsonview.OrNull(v.UpdatedBy)
	}
	return about, nil
}

func (s *storeJSON) properties() []kit.Property {
	properties := []kit.Property{{Name: "store", Value: kit.Text(s.URL)}, {Name: "schema", Value: kit.Text(s.Schema)}}
	for _, f := range []struct {
		name  string
		value *string
	}{{"client_min", s.ClientMin}, {"lambda", s.Lambda}, {"updated_by", s.UpdatedBy}} {
		if f.value != nil {
			properties = append(properties, kit.Property{Name: f.name, Value: kit.Text(*f.value)})
		}
	}

	if s.UpdatedAt != nil {
		properties = append(properties, kit.Property{Name: "updated_at", Value: kit.Moment(*s.UpdatedAt)})
	}
	return properties
}

// versionOf returns the version that the linker set, else the version of the
// module, else the revision of the source, else "devel".
func versionOf(linked string, info *debug.BuildInfo) string {
	if linked != "" {
		return linked
	}
	if info == nil {
		return "devel"
	}

	// Go calls a build from a folder of sources (devel).
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
