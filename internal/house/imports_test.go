package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/zeroae/zae-limiter-go"

type rule struct {
	dir string
	may []string
	why string
}

// packages lists what each package may import besides the standard library:
// packages of this module by their folder ("." is the root), other modules by the
// prefix of their path. Every package must be listed.
var packages = []rule{
	{
		".",
		[]string{"internal/bucket", "internal/calendar", "internal/chain", "internal/figure"},
		"the domain: whatever it imports, every user imports, and a store it knew would stop being replaceable",
	},
	{
		"internal/bucket",
		[]string{"internal/calendar"},
		"arithmetic on whole numbers: a type of the domain or a clock here could not be tested by tables alone",
	},
	{
		"internal/calendar", nil,
		"arithmetic on dates: a type of the domain or a clock here could not be tested against a scan of every zone",
	},
	{"internal/chain", nil, "the way up a tree: a type of the domain here could not be shared with the domain"},
	{"internal/figure", nil, "figures: a type of the domain here could not be shared by everything that shows one"},
	{
		"internal/yamlfile",
		[]string{"go.yaml.in/yaml/v3"},
		"reads any kind of file: what one holds belongs to its reader",
	},
	{
		"internal/rules",
		[]string{".", "internal/bucket", "internal/calendar", "internal/chain"},
		"what a bucket means, whichever store it is in: it must not know where they keep it",
	},
	{
		"memory",
		[]string{".", "internal/bucket", "internal/chain", "internal/rules"},
		"the reference store has to be readable on its own, and needs nothing installed",
	},
	{
		"sqlite",
		[]string{".", "internal/bucket", "internal/chain", "internal/rules", "modernc.org/sqlite"},
		"an adapter knows its technology and no other",
	},
	{
		"dynamo",
		[]string{
			".", "dynamo/aggregator", "dynamo/internal/wire", "internal/bucket", "internal/chain", "internal/rules",
			"internal/remedy", "internal/pause", "github.com/aws/",
		},
		"an adapter knows its technology and no other",
	},
	{
		"dynamo/internal/wire",
		[]string{"github.com/aws/"},
		"sends what the SDK would send: what an update means belongs to the store",
	},
	{
		"dynamo/internal/dynamotest",
		[]string{
			".", "dynamo/aggregator", "dynamo", "internal/engine", "internal/engine/dynamodb", "internal/remedy",
			"github.com/aws/", "github.com/google/go-cmp",
		},
		"the engine, wires and tables of the store's tests: it must not know what they assert",
	},
	{
		"dynamo/internal/interop", nil,
		"tests beside the Python library: a program has no use for them",
	},
	{
		"dynamo/aggregator",
		[]string{".", "internal/bucket"},
		"counts what it is given: a feed or a store it knew would stop being replaceable",
	},
	{
		"manifest",
		[]string{
			".", "internal/bucket", "internal/figure", "internal/pause", "internal/rules", "internal/yamlfile",
			"go.yaml.in/yaml/v3", "golang.org/x/sync/errgroup",
		},
		"declares limits and applies them through the limiter: a store or a cloud it knew would be the only " +
			"one it works for",
	},
	{
		"escrow",
		[]string{".", "internal/bucket", "internal/rules"},
		"a store around any store: one that it knew would be the only one it works for",
	},
	{
		"httplimit",
		[]string{".", "internal/bucket", "internal/figure", "internal/outlive"},
		"a user of net/http gets nothing more than the limiter: frameworks take its http.Handler",
	},
	{
		"telemetry",
		[]string{".", "go.opentelemetry.io/otel"},
		"a store around any store, with the API of OpenTelemetry: an SDK that it knew would come with every program",
	},
	{
		"repotest",
		[]string{".", "github.com/google/go-cmp"},
		"the meaning of the port, for stores outside this module too: it looks at none of ours, and its " +
			"oracle shares no arithmetic with them",
	},
	{
		"loadtest",
		[]string{
			".", "internal/bucket", "internal/pause", "internal/rules", "internal/yamlfile",
			"github.com/HdrHistogram/hdrhistogram-go", "go.yaml.in/yaml/v3",
		},
		"load for any store: a store, a cloud or a command tree it knew would come with every test of a user",
	},
	{
		"cmd/program",
		[]string{"loadtest", "cmd/internal/cli", "cmd/internal/lambda"},
		"what a program with scenarios of its own needs: package loadtest must not compile all of it",
	},
	{
		"loadtest/locust",
		[]string{".", "loadtest", "internal/pause", "github.com/go-zeromq/zmq4", "github.com/vmihailenco/msgpack/v5"},
		"the protocol of one master: what the users do belongs to their scenario",
	},
	{
		"cmd/internal/docs", nil,
		"reads pages: what they must say belongs to the tests of what they describe",
	},
	{
		"cmd/internal/stores", nil,
		"tests of what works on any store: the modules that those packages are in must not require one",
	},
	{
		"internal/race", nil,
		"one constant",
	},
	{
		"internal/golden",
		[]string{"github.com/google/go-cmp"},
		"compares texts: it must not know of what",
	},
	{
		"dynamo/infra",
		[]string{".", "dynamo/aggregator", "dynamo", "internal/remedy", "internal/pause", "github.com/aws/", "golang.org/x/mod"},
		"the account around a table: what is in the table belongs to its store",
	},
	{
		"dynamo/infra/internal/fakeaws",
		[]string{"dynamo", "github.com/aws/", "go.yaml.in/yaml/v3"},
		"a fake of AWS: it must not know the package that it tests",
	},
	{
		"internal/pause", nil,
		"waits: what for is up to its callers",
	},
	{
		"internal/outlive", nil,
		"outlives callers: whose work it is does not matter",
	},
	{
		"internal/remedy", nil,
		"says what mends a fault: a program words it",
	},
	{
		"cmd/internal/hint",
		[]string{"internal/remedy"},
		"words remedies as commands: the faults belong to their packages",
	},
	{
		"cmd/internal/jsonview",
		[]string{".", "httplimit", "internal/bucket", "internal/figure", "cmd/internal/cli/kit/tty"},
		"what a reader of the store sees, on a command line or over a network: it must not know which",
	},
	{
		"cmd/internal/server",
		[]string{
			".", "httplimit", "grpclimit", "cmd/internal/jsonview", "cmd/internal/hint", "cmd/internal/listen",
			"cmd/internal/openapi", "cmd/internal/web", "internal/yamlfile", "google.golang.org/grpc",
			"google.golang.org/protobuf",
		},
		"serves any store: flags, files of settings and the choice of a store belong to the command tree",
	},
	{
		"cmd/internal/dashboard",
		[]string{
			".", "httplimit", "manifest", "cmd/internal/jsonview", "internal/bucket", "internal/chain",
			"internal/figure", "cmd/internal/listen", "cmd/internal/web", "internal/pause",
		},
		"a handler on any store: tokens, listeners and the choice of a store belong to its callers",
	},
	{
		"llm",
		[]string{".", "internal/figure", "internal/yamlfile", "go.yaml.in/yaml/v3"},
		"what calls cost, for programs without a proxy too: a format of an API must not bring its SDK",
	},
	{
		"cmd/internal/proxy",
		[]string{
			".", "httplimit", "cmd/internal/hint", "internal/outlive", "cmd/internal/listen", "cmd/internal/web",
			"llm", "internal/yamlfile",
			"github.com/golang-jwt/jwt/v5", "go.yaml.in/yaml/v3",
		},
		"a handler like any other: listeners, files and the choice of a store belong to the command tree",
	},
	{
		"cmd/internal/listen", nil,
		"binds, bounds and drains: what is served is up to its callers",
	},
	{
		"cmd/internal/web",
		[]string{".", "httplimit", "cmd/internal/jsonview", "cmd/internal/listen", "cmd/internal/openapi"},
		"how a request is checked and answered: what it asks for, and who may ask, belong to its callers",
	},
	{
		"cmd/internal/openapi", nil,
		"describes Go types: which API they belong to does not matter",
	},
	{
		"cmd/internal/webdemo",
		[]string{
			".", "httplimit", "cmd/internal/jsonview", "internal/outlive", "cmd/internal/listen", "cmd/internal/openapi",
			"cmd/internal/web", "internal/pause", "llm",
		},
		"a program like any user's: it is given its store, its listener and its dashboard",
	},
	{
		"cmd/internal/chatload",
		[]string{"internal/pause"},
		"a client of any chat API: it must not know what is behind it",
	},
	{
		"cmd/internal/local",
		[]string{"golang.org/x/sys"},
		"starts and stops engines: what is in them belongs to its callers, and no cloud is needed for that",
	},
	{
		"internal/engine", nil,
		"starts and stops a script: it must not know what it serves",
	},
	{
		"internal/engine/dynamodb",
		[]string{"internal/engine"},
		"only tests start an engine, also those that must not compile a cloud",
	},
	{
		"internal/engine/moto",
		[]string{"internal/engine"},
		"only tests start an emulator, also those that must not compile a cloud",
	},
	{
		"internal/engine/envoy",
		[]string{"internal/engine"},
		"only tests start Envoy: it must not know what they configure",
	},
	{
		"internal/engine/s3", nil,
		"only tests store objects here, also those that must not compile a cloud",
	},
	{
		"grpclimit",
		[]string{
			".", "internal/figure", "internal/outlive", "google.golang.org/grpc",
			"google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf",
		},
		"middleware for any store: a server of ours that it knew would come with every program of a user",
	},
	{
		"cmd/internal/rls",
		[]string{
			".", "httplimit", "grpclimit", "cmd/internal/jsonview", "internal/outlive", "internal/yamlfile",
			"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc",
			"google.golang.org/protobuf", "go.yaml.in/yaml/v3",
		},
		"judges descriptors: listeners, tokens and stores belong to its callers",
	},
	{
		"cmd/internal/cli",
		[]string{
			".", "dynamo", "loadtest", "sqlite", "cmd/internal/jsonview", "cmd/internal/cli/", "github.com/spf13/",
		},
		"joins the families to one program: what commands do belongs to them",
	},
	{
		"cmd/internal/cli/kit",
		[]string{
			".", "dynamo/infra", "memory", "sqlite", "dynamo", "cmd/internal/jsonview", "internal/figure",
			"cmd/internal/hint", "internal/yamlfile", "cmd/internal/cli/kit/", "github.com/spf13/", "go.yaml.in/yaml/v3",
		},
		"the one place that picks a store: it must not know a command",
	},
	{
		"cmd/internal/cli/data",
		[]string{
			".", "memory", "cmd/internal/jsonview", "internal/bucket", "internal/figure", "cmd/internal/cli/kit",
			"cmd/internal/cli/kit/", "cmd/internal/cli/data/", "github.com/spf13/",
		},
		"works on any store: what belongs to a table is in package stack",
	},
	{
		"cmd/internal/cli/limits",
		[]string{
			".", "manifest", "memory", "dynamo", "cmd/internal/jsonview", "cmd/internal/hint", "cmd/internal/cli/kit",
			"cmd/internal/cli/kit/", "github.com/spf13/",
		},
		"families do not know each other: what two of them share is in the kit",
	},
	{
		"cmd/internal/cli/stack",
		[]string{
			".", "dynamo/aggregator", "dynamo/infra", "dynamo", "cmd/internal/jsonview", "cmd/internal/hint",
			"cmd/internal/s3files", "cmd/internal/cli/kit", "cmd/internal/cli/kit/", "github.com/spf13/",
		},
		"families do not know each other: what two of them share is in the kit",
	},
	{
		"cmd/internal/cli/programs",
		[]string{
			".", "escrow", "cmd/internal/jsonview", "cmd/internal/dashboard", "internal/figure",
			"cmd/internal/listen", "cmd/internal/otelsdk", "cmd/internal/proxy", "cmd/internal/rls",
			"cmd/internal/server", "llm", "cmd/internal/cli/kit", "cmd/internal/cli/kit/", "github.com/spf13/",
		},
		"turns flags into options of handlers: the handlers know no flags",
	},
	{
		"cmd/internal/cli/loadtest",
		[]string{
			".", "dynamo/infra", "loadtest", "loadtest/locust", "dynamo", "cmd/internal/jsonview",
			"cmd/internal/chatload", "internal/pause", "cmd/internal/cli/kit", "cmd/internal/cli/kit/",
			"github.com/spf13/",
		},
		"families do not know each other: what two of them share is in the kit",
	},
	{
		"cmd/internal/cli/local",
		[]string{
			".", "dynamo/infra", "dynamo", "cmd/internal/jsonview", "cmd/internal/local", "cmd/internal/cli/kit",
			"cmd/internal/cli/kit/", "github.com/spf13/",
		},
		"families do not know each other: what two of them share is in the kit",
	},
	{
		"cmd/internal/cli/demo",
		[]string{
			".", "escrow", "internal/bucket", "cmd/internal/dashboard", "cmd/internal/listen", "internal/pause",
			"internal/rules", "cmd/internal/webdemo", "llm", "cmd/internal/cli/kit", "cmd/internal/cli/kit/",
			"github.com/spf13/",
		},
		"a program like any user's: its traffic is given a store and a clock",
	},
	{
		"cmd/internal/cli/kit/child",
		[]string{"golang.org/x/sys"},
		"runs any command: it must not know about limits",
	},
	{
		"cmd/internal/cli/data/plot",
		[]string{".", "internal/bucket", "cmd/internal/cli/kit/tty", "github.com/guptarohit/asciigraph"},
		"turns snapshots into text: where they come from and where it goes is not its business",
	},
	{
		"cmd/internal/cli/kit/tty",
		[]string{"internal/figure", "golang.org/x/term", "github.com/rivo/uniseg"},
		"draws on a terminal: it must not know what",
	},
	{
		"cmd/internal/cli/clitest",
		[]string{
			"cmd/internal/cli", "cmd/internal/cli/kit", "internal/engine/dynamodb", "internal/engine/moto",
			"github.com/rogpeppe/go-internal/testscript",
		},
		"runs the program in tests of its families: a program has no use for it",
	},
	{
		"cmd/internal/lambda",
		[]string{
			".", "dynamo/aggregator", "dynamo", "loadtest", "loadtest/locust", "manifest", "cmd/internal/s3files",
			"github.com/aws/",
		},
		"the same work as in the command tree, by another caller: neither may need the other",
	},
	{
		"cmd/internal/otelsdk",
		[]string{
			".", "telemetry", "go.opentelemetry.io/", "github.com/prometheus/client_golang",
			"github.com/go-logr/logr",
		},
		"the SDK and the exporters of programs: a library that knew it would choose for its users",
	},
	{
		"cmd/internal/s3files",
		[]string{"dynamo/aggregator", "github.com/aws/"},
		"an adapter knows its technology and no other",
	},
	{
		"api", nil,
		"compares the exported API with its files: a program has no use for it",
	},
	{
		"internal/house", nil,
		"tests of the repository: a program has no use for them",
	},
	{
		"cmd/internal/release", nil,
		"tests of what builds and publishes a release: a program has no use for them",
	},
	{
		"cmd/zae-limiter",
		[]string{"cmd/internal/cli", "cmd/internal/lambda"},
		"a few lines, so that everything else can be tested without a process",
	},
	{
		"cmd/zae-limiter-function",
		[]string{"cmd/internal/lambda"},
		"the code of functions: commands and servers would make every cold start slower",
	},
}

// bans lists imports that are allowed in one place only, tests included.
var bans = []struct {
	path string
	only []string
	why  string
}{
	{
		"github.com/aws/",
		[]string{
			"dynamo", "dynamo/internal/wire", "dynamo/internal/dynamotest", "dynamo/internal/interop", "dynamo/infra",
			"dynamo/infra/internal/fakeaws", "cmd/internal/lambda", "cmd/internal/s3files",
		},
		"users of other stores must not compile a cloud",
	},
	{"github.com/aws/aws-lambda-go", []string{"cmd/internal/lambda"}, "what runs in a Lambda does not know that it does"},
	{
		"github.com/spf13/",
		[]string{
			"cmd/internal/cli", "cmd/internal/cli/kit", "cmd/internal/cli/data", "cmd/internal/cli/limits",
			"cmd/internal/cli/stack", "cmd/internal/cli/programs", "cmd/internal/cli/loadtest", "cmd/internal/cli/local",
			"cmd/internal/cli/demo",
		},
		"flags are turned into plain options once",
	},
	{"github.com/golang-jwt/", []string{"cmd/internal/proxy"}, "one place decides which tokens are valid"},
	{
		"github.com/go-zeromq/",
		[]string{"loadtest/locust"},
		"only the worker of a distributed load test speaks this protocol",
	},
	{"go.opentelemetry.io/", []string{"telemetry", "cmd/internal/otelsdk"}, "other packages are observed through the port"},
	{"github.com/prometheus/", []string{"cmd/internal/otelsdk"}, "programs choose their exporters in one place"},
	{"github.com/envoyproxy/", []string{"cmd/internal/rls"}, "only the rate limit service speaks Envoy's protocol"},
	{"modernc.org/", []string{"sqlite"}, "a driver behind the port cannot be used past it"},
}

// inTests lists what tests may import besides the imports of their package. Tests
// may import every package of this module.
var inTests = map[string][]string{
	"": {"github.com/google/go-cmp"},
	"cmd/internal/cli": {
		"github.com/rogpeppe/go-internal/testscript", "google.golang.org/grpc/status", "go.yaml.in/yaml/v3",
	},
	"cmd/internal/cli/programs": {"golang.org/x/net/http2"},
	"dynamo/internal/interop":   {"github.com/aws/"},
	"dynamo/infra":              {"go.yaml.in/yaml/v3"},
	"cmd/internal/docs":         {"go.yaml.in/yaml/v3", "google.golang.org/grpc"},
	"cmd/internal/local":        {"go.yaml.in/yaml/v3"},
	"cmd/internal/release":      {"go.yaml.in/yaml/v3"},
	"cmd/internal/rls":          {"github.com/santhosh-tekuri/jsonschema/v6"},
	"loadtest":                  {"github.com/santhosh-tekuri/jsonschema/v6"},
	"manifest":                  {"github.com/santhosh-tekuri/jsonschema/v6"},
	"telemetry":                 {"go.opentelemetry.io/otel/sdk"},
	"cmd/internal/server":       {"github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/net/http2"},
}

// testOnly lists the packages that only tests import.
var testOnly = []string{
	"./dynamo/internal/dynamotest", "./dynamo/internal/interop", "./dynamo/infra/internal/fakeaws",
	"./internal/engine", "./internal/engine/dynamodb", "./internal/engine/moto", "./internal/engine/envoy",
	"./internal/engine/s3", "./internal/golden", "./internal/house", "./internal/race", "./cmd/internal/release",
	"./api", "./cmd/internal/docs", "./cmd/internal/stores", "./cmd/internal/cli/clitest",
}

// fixtures lists the packages that import testing outside of _test.go files.
var fixtures = []string{"repotest", "dynamo/internal/dynamotest", "dynamo/infra/internal/fakeaws"}

// goFile is a file of this module with its imports. Packages of this module are
// listed by their folder.
type goFile struct {
	dir, name string
	test      bool
	imports   []string
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	check(t, filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name != "." && foreign(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		file := goFile{
			dir: filepath.ToSlash(filepath.Dir(name)), name: filepath.ToSlash(name),
			test: strings.HasSuffix(name, "_test.go"),
		}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			file.imports = append(file.imports, local(p))
		}
		files = append(files, file)
		return nil
	}))
	return files
}

// foreign reports whether a folder is outside of the modules that are released. The
// others have a workspace of their own.
func foreign(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.work"))
	return err == nil
}

// local converts an import path of this module to its folder.
func local(importPath string) string {
	if importPath == module {
		return "."
	}
	if dir, ok := strings.CutPrefix(importPath, module+"/"); ok {
		return "./" + dir
	}
	return importPath
}

func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// allows reports whether may lists an import.
func allows(may []string, importPath string) bool {
	if importPath == "." || strings.HasPrefix(importPath, "./") {
		importPath = path.Clean(importPath)
		return slices.ContainsFunc(may, func(m string) bool {
			return m == importPath || strings.HasSuffix(m, "/") && strings.HasPrefix(importPath, m)
		})
	}
	return slices.ContainsFunc(may, func(m string) bool {
		return m != "." && (importPath == m || strings.HasPrefix(importPath, strings.TrimSuffix(m, "/")+"/"))
	})
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for _, f := range goFiles(t) {
		i := slices.IndexFunc(packages, func(r rule) bool { return r.dir == f.dir })
		if i < 0 {
			t.Errorf("%s: package %s is not in the table: add what it may import, and why", f.name, f.dir)
			continue
		}
		for _, imported := range f.imports {
			switch {
			case isStandard(imported), allows(packages[i].may, imported):
			case f.test && (imported == "." || strings.HasPrefix(imported, "./") || allows(inTests[""], imported) ||
				allows(inTests[f.dir], imported)):
			default:
				t.Errorf("%s imports %s; %s", f.name, imported, packages[i].why)
			}
		}
	}
}

// modules lists what each module requires directly, besides modules of ours and what
// inTests lists.
var modules = map[string][]string{
	".":                 nil,
	"internal/yamlfile": {"go.yaml.in/yaml/v3"},
	"sqlite":            {"modernc.org/sqlite"},
	"dynamo":            {"github.com/aws/"},
	"dynamo/infra":      {"github.com/aws/", "golang.org/x/mod", "go.yaml.in/yaml/v3"},
	"grpclimit":         {"google.golang.org/"},
	"telemetry":         {"go.opentelemetry.io/otel"},
	"llm":               {"go.yaml.in/yaml/v3"},
	"manifest":          {"go.yaml.in/yaml/v3", "golang.org/x/sync", "github.com/santhosh-tekuri/jsonschema/v6"},
	"loadtest": {
		"github.com/HdrHistogram/hdrhistogram-go", "github.com/go-zeromq/zmq4", "github.com/vmihailenco/msgpack/v5",
		"go.yaml.in/yaml/v3", "github.com/santhosh-tekuri/jsonschema/v6",
	},
}

// TestModulesRequireOnlyWhatTheyMay checks the direct requirements of the modules that
// programs of users import, which get all of them. Module cmd may require what its
// packages import.
func TestModulesRequireOnlyWhatTheyMay(t *testing.T) {
	for dir, may := range modules {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		check(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(strings.TrimPrefix(line, "require "))
			if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.HasSuffix(line, "// indirect\n") {
				continue
			}
			imported := local(fields[0])
			ours := imported == "." || strings.HasPrefix(imported, "./")
			if !ours && !allows(append(may, inTests[""]...), imported) {
				t.Errorf("module %s requires %s: a program that imports it gets that, too", dir, imported)
			}
			if ours && slices.Contains([]string{"./cmd", "./sqlite", "./dynamo"}, imported) && dir != "dynamo/infra" {
				t.Errorf("module %s requires %s: what works on any store requires none, even in tests", dir, imported)
			}
		}
		if strings.Contains(string(text), "\nreplace ") {
			t.Errorf("go.mod of %s replaces a module, which users of a release do not see", dir)
		}
	}
}

func TestImportsThatHaveOneHome(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, imported := range f.imports {
			for _, ban := range bans {
				if allows([]string{ban.path}, imported) && !slices.Contains(ban.only, f.dir) {
					t.Errorf("%s imports %s: %s", f.name, imported, ban.why)
				}
			}
			if (imported == "testing" || strings.HasPrefix(imported, "testing/")) && !f.test &&
				!slices.Contains(fixtures, f.dir) {
				t.Errorf("%s imports %s: a program must not carry the flags of a test", f.name, imported)
			}
			if slices.Contains(testOnly, imported) && !f.test && !slices.Contains(testOnly, "./"+f.dir) {
				t.Errorf("%s imports %s: that is for tests", f.name, imported)
			}
		}
	}
}

// TestProgramsAloneLinkTheZones checks that every program of the module has the
// zones of quotas, and that no package makes other programs larger by them.
func TestProgramsAloneLinkTheZones(t *testing.T) {
	var linked []string
	for _, f := range goFiles(t) {
		if !f.test && !slices.Contains(fixtures, f.dir) && slices.Contains(f.imports, "time/tzdata") {
			linked = append(linked, f.dir)
		}
	}
	if want := []string{
		"cmd/zae-limiter", "cmd/zae-limiter-function",
	}; !slices.Equal(slices.Sorted(slices.Values(linked)), want) {
		t.Errorf("%v import time/tzdata, want %v", linked, want)
	}
}

// TestNoPackageIsNamedAfterNothing checks that no package has a catch-all name. A
// type belongs beside its use, and package memory is the fake.
func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for _, f := range goFiles(t) {
		for part := range strings.SplitSeq(f.dir, "/") {
			if slices.Contains(
				[]string{"pkg", "util", "utils", "common", "types", "models", "mock", "mocks", "helpers"}, part,
			) {
				t.Errorf("%s: %s says nothing about what is in it", f.name, part)
			}
		}
	}
}
