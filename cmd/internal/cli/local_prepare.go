package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// localTimeout is the timeout of a call to a local engine, whose first calls are
// slow.
const localTimeout = 30 * time.Second

// localPoll is the interval between two checks of a deployment. Deployments are
// faster here than in AWS.
const localPoll = 500 * time.Millisecond

// prepare makes the table that programs use: a stack on LocalStack, a table on
// DynamoDB Local. Existing ones stay.
func (o *localUpOptions) prepare(ctx context.Context, folder *local.Folder, e *local.Engine, table string) error {
	at := dynamo.Options{Region: local.Region, Endpoint: e.Endpoint(), Timeout: localTimeout}

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

func (o *localUpOptions) createLocal(ctx context.Context, table string, at dynamo.Options) error {
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
func (o *localUpOptions) deployLocal(ctx context.Context, table string, at dynamo.Options) error {
	stack := kit.Stack{Console: o.Console, Name: table, Region: at.Region, Endpoint: at.Endpoint}
	opts, err := stack.Options()
	if err != nil {
		return err
	}

	opts.Dynamo, opts.Poll = at, localPoll
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
