package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type upOptions struct {
	connection
	engine            local.Kind
	name, image, jar  string
	format            local.Format
	noDeploy, counted bool
}

func newUp(c *kit.Console) *cobra.Command {
	o := &upOptions{connection: connection{Console: c}, format: local.FormatEval}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start an engine on this machine and prepare a table",
		Long: `Start an engine, wait until it answers, and prepare a table: LocalStack gets a
stack, DynamoDB Local a table and the namespace. The command prints the
environment variables that select the table, for eval, and messages to stderr.

The engine is LocalStack if Docker is running, else DynamoDB Local with Java;
Maven fetches it once. With --engine dynamodb, Docker runs DynamoDB Local if it
can. The engine keeps running until "local down". If one is running already, the
command uses it, and only prepares the table.`,
		Example: "  eval \"$(zae-limiter local up)\"\n  zae-limiter local up --engine dynamodb --aggregate\n " +
			" zae-limiter local up --name my-app --port 4567",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLocalUp(cmd.Context(), o) },
	}

	kinds := []local.Kind{local.LocalStack, local.DynamoDB}
	kit.AddFlag(cmd, &o.engine, "engine", "engine", "", "localstack or dynamodb (default: the first that can run)",
		kit.OneOf(kinds...))
	_ = cmd.RegisterFlagCompletionFunc("engine", kit.CompleteWords(kinds...))

	flags := cmd.Flags()
	flags.StringVarP(&o.name, "name", "n", "", "`name` of the table or stack (default $ZAEL_STACK, else zae-limiter)")

	o.addPort(cmd, "port of the engine (default 4566 for localstack, 8000 for dynamodb)")
	flags.StringVar(&o.image, "image", "",
		"`image` of the container (default "+local.LocalStackImage+", "+local.DynamoDBImage+")")

	o.addDockerHost(cmd)
	kit.AddFlag(cmd, &o.jar, "jar", "file", "", "jar of DynamoDB Local to run with Java, in place of Docker and Maven",
		parseJar)

	flags.BoolVar(&o.noDeploy, "no-deploy", false, "only start the engine")
	flags.BoolVar(&o.counted, "aggregate", false,
		"keep \"aggregate --follow\" running beside DynamoDB Local, which counts usage")

	addShellFormat(cmd, &o.format)
	return cmd
}

// parseJar requires the path of a file.
func parseJar(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", errors.New("must be the path of DynamoDBLocal.jar")
	}

	// The engine has another working directory, so the path must be absolute.
	return filepath.Abs(name)
}

func (o *upOptions) check() error {
	switch {
	case o.jar != "" && o.engine == local.LocalStack:
		return kit.Usagef("--jar is for DynamoDB Local; leave out --engine localstack")
	case o.jar != "" && (o.image != "" || o.dockerHost != ""):
		return kit.Usagef("--jar runs without Docker; leave out --image and --docker-host")
	case o.counted && o.engine == local.LocalStack:
		return kit.Usagef("--aggregate is for DynamoDB Local; a function of the stack counts usage on LocalStack")
	case o.counted && o.noDeploy:
		return kit.Usagef("--aggregate needs a table; leave out --no-deploy")
	}

	// Both flags are for DynamoDB Local alone, so either one chooses it.
	if o.counted || o.jar != "" {
		o.engine = local.DynamoDB
	}
	return nil
}

func runLocalUp(ctx context.Context, o *upOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	table := dynamo.TableName(o.name)
	if err := checkTable(table); err != nil {
		return err
	}

	folder, err := local.OpenFolder()
	if err != nil {
		return err
	}

	// Of two commands at once, one starts the engine and the other finds it.
	unlock, err := o.lock(ctx, folder)
	if err != nil {
		return err
	}
	defer unlock()

	e, started, err := folder.Up(ctx, o.settings())
	if err != nil {
		o.showLog(err)
		return usageError(err)
	}

	o.reportEngine(e, started)
	o.reportOthers(ctx, folder, e)

	// furnish replaces variables of this process, so overrides looks at the
	// user's variables before.
	warnings := overrides(e)
	if err := o.furnish(ctx, folder, e, table); err != nil {
		return errors.Join(err, o.undo(ctx, folder, e, started))
	}

	// On a terminal the variables are only shown, since no program can set them
	// in its shell.
	if o.Terminal {
		o.Say("To use it in this shell, run: eval \"$(%s)\"", o.suggestion("env"))
	}

	return o.printEnvironment(e, table, o.format, warnings)
}

func (o *upOptions) settings() *local.Settings {
	return &local.Settings{
		Kind: o.engine, Port: o.port, Image: o.image, DockerHost: o.dockerHost, Jar: o.jar,
		Say:      func(text string) { o.Say("%s", text) },
		Warn:     func(text string) { o.Warn("%s", text) },
		Progress: o.working,
	}
}

// reportEngine says which engine is running, and where.
func (o *upOptions) reportEngine(e *local.Engine, started bool) {
	switch {
	case started:
		o.Done("%s is running at %s", e.Kind.Title(), e.Endpoint())
	case e.Foreign:
		o.Done("%s is already running at %s, in the container %s of another program", e.Kind.Title(), e.Endpoint(),
			e.Container)
	default:
		o.Done("%s is already running at %s", e.Kind.Title(), e.Endpoint())
	}

	if o.port != 0 && o.port != e.Port {
		o.Warn("the port is %d, not %d, since %s has one container", e.Port, o.port, e.Kind.Title())
	}

	// check allows only one of --image and --jar.
	if runs := cmp.Or(e.Image, e.Program); !started && o.image+o.jar != "" && !strings.HasSuffix(runs, o.image+o.jar) {
		o.Warn("it runs %s; %s", runs, e.Remedy())
	}
}

// reportOthers names the other engines that run, since later commands have to
// choose between them.
func (o *upOptions) reportOthers(ctx context.Context, folder *local.Folder, e *local.Engine) {
	// A damaged record of another engine does not matter here.
	all, _ := folder.All()
	for _, other := range all {
		if other.Port == e.Port {
			continue
		}

		if state, err := other.Inspect(ctx); err == nil && state.Running {
			o.Warn("%s is running, too, at %s; other local commands need --port", other.Kind.Title(), other.Endpoint())
		}
	}
}

// furnish prepares the table, records it, and starts its aggregator.
func (o *upOptions) furnish(ctx context.Context, folder *local.Folder, e *local.Engine, table string) error {
	if o.noDeploy {
		e.Table = table
		return folder.Save(e)
	}

	enter(e, table)
	if err := o.prepare(ctx, folder, e, table); err != nil {
		return err
	}

	// The table is ready from here on, even if its aggregator does not start.
	e.Table = table
	if err := folder.Save(e); err != nil {
		return err
	}

	if !o.counted {
		if e.Kind == local.DynamoDB && !e.Aggregators[table].Alive() {
			o.Say("  usage is not counted; \"zae-limiter aggregate\" counts it, as does --aggregate here")
		}
		return nil
	}

	program, err := aggregatorOf(ctx, e, table)
	if err != nil {
		return err
	}

	started, err := folder.Aggregate(ctx, e, table, program)
	switch {
	case err != nil:
		return err
	case started:
		o.Done("An aggregator counts the usage of table %s (process %s)", table, strconv.Itoa(e.Aggregators[table].PID))
	default:
		o.Done("An aggregator already counts the usage of table %s", table)
	}
	return nil
}

// undo stops an engine that this command started, even if ctx has ended.
func (o *upOptions) undo(ctx context.Context, folder *local.Folder, e *local.Engine, started bool) error {
	if !started {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return folder.Down(ctx, e, false)
}

// timeout is the timeout of a call to a local engine, whose first calls are
// slow.
const timeout = 30 * time.Second

// poll is the interval between two checks of a deployment. Deployments are
// faster here than in AWS.
const poll = 500 * time.Millisecond

// prepare makes the table that programs use: a stack on LocalStack, a table on
// DynamoDB Local. Existing ones stay.
func (o *upOptions) prepare(ctx context.Context, folder *local.Folder, e *local.Engine, table string) error {
	at := dynamo.Options{Region: local.Region, Endpoint: e.Endpoint(), Timeout: timeout}

	var err error
	if e.Kind == local.LocalStack {
		err = o.deployLocal(ctx, table, at)
	} else {
		err = o.createLocal(ctx, table, at)
	}
	if err != nil {
		err = kit.StackError(err)

		// The engine reports a full disk only as an internal error, so Diagnose
		// looks for one.
		if ctx.Err() == nil {
			err = cmp.Or(folder.Diagnose(ctx, e), err)
		}
		return fmt.Errorf("prepare %s at %s: %w", table, e.Endpoint(), err)
	}

	return nil
}

func (o *upOptions) createLocal(ctx context.Context, table string, at dynamo.Options) error {
	stop := o.working("preparing table " + table)
	defer stop()

	// The registry needs no registration, so ErrNotFound means that the table
	// is missing, and not its namespace.
	namespace := dynamo.NamespaceName("")
	probe := at
	probe.Namespace = kit.RegistryNamespace
	repo, err := dynamo.Connect(ctx, table, &probe)
	created := errors.Is(err, limiter.ErrNotFound)
	switch {
	case err == nil:
		// It was opened only to find out whether it exists.
		_ = repo.Close()
	case !created:
		return err
	}

	if err := dynamo.CreateTable(ctx, table, &at); err != nil {
		return err
	}

	// The line of the progress has to be gone before the message.
	stop()
	if created {
		o.Done("Created table %s with namespace %s", table, namespace)
	} else {
		o.Done("Table %s already exists, with namespace %s", table, namespace)
	}
	return nil
}

// deployLocal deploys a stack with its default settings, or keeps the settings of
// the deployed one.
func (o *upOptions) deployLocal(ctx context.Context, table string, at dynamo.Options) error {
	stack := kit.Stack{Console: o.Console, Name: table, Region: at.Region, Endpoint: at.Endpoint}
	opts, err := stack.Options()
	if err != nil {
		return err
	}

	opts.Dynamo, opts.Poll = at, poll
	opts.Resolve = func(deployed *infra.Stack) infra.Stack {
		if deployed != nil {
			return *deployed
		}
		return infra.Stack{Architecture: infra.DefaultArchitecture("")}
	}

	stop := o.working("deploying stack " + table)
	defer stop()
	began := time.Now()
	d, err := infra.Deploy(ctx, table, &opts)
	stop()
	switch {
	case err != nil:
		return err
	case !d.Complete:
		return fmt.Errorf("the stack is busy (%s); run this again when it is done", d.Status)
	case d.Action == "unchanged":
		o.Done("Stack %s is up to date", table)
	default:
		o.Done("Stack %s %s in %s", table, d.Action, tty.Duration(time.Since(began)))
	}
	return nil
}

// aggregatorOf returns the command of this program that counts the usage of a
// table. It passes the name of this process on, since the program may have been
// started by a link and choose by its name what to do.
func aggregatorOf(ctx context.Context, e *local.Engine, table string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}

	// The aggregator outlives this command, so ctx must not end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, "aggregate", "--follow", "--store",
		kit.TableScheme+table, "--region", local.Region, "--endpoint-url", e.Endpoint())
	cmd.Args[0] = os.Args[0]

	// enter has put the credentials of the engine into this environment.
	cmd.Env = os.Environ()
	return cmd, nil
}
