package loadtest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

type workerOptions struct {
	*kit.Connection
	choice scenarioChoice
	master string
	giveUp time.Duration
}

func newWorker(c *kit.Console, p Program) *cobra.Command {
	o := workerOptions{Connection: &kit.Connection{Console: c}, choice: scenarioChoice{program: p}, giveUp: time.Minute}
	cmd := &cobra.Command{
		Use:   "worker SCENARIO [CLASS...]",
		Short: "Run users for a Locust master",
		Long: `Run the users of a scenario for a Locust master, which decides how many run and
adds up the statistics of all workers. The master loads the file that
"zae-limiter loadtest locustfile" prints. Tested with Locust ` + locust.Version + `; a master
of another version warns.

The worker ends when the master does. Without a master it tries again. After
--give-up it removes the namespace of its test and fails. Ctrl-C stops the
users, sends the last report, leaves the master and names the namespace. All
workers of a test need the same store.

` + kit.StoreHelp,
		Example: `  zae-limiter loadtest worker simple --master 10.0.0.5 --name my-app
  zae-limiter loadtest worker max_rps MaxRpsCascadeUser --master localhost:5557`,
		RunE: func(cmd *cobra.Command, args []string) error { return runWorker(cmd.Context(), &o, args) },
	}

	o.AddStore(cmd)
	o.choice.addFlags(cmd)
	kit.AddFlag(cmd, &o.master, "master", "address", "",
		"host or host:port of the Locust master (port "+locust.DefaultPort+" if none is given)", parseMaster)
	kit.AddFlag(cmd, &o.giveUp, "give-up", "duration", "1m", "how long to look for a master", kit.ParseDuration)

	return cmd
}

// parseMaster checks the address of a master.
func parseMaster(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	// SplitHostPort rejects an address without a port.
	if err != nil {
		// An IPv6 address without a port has colons, too.
		host, port = text, locust.DefaultPort
		if ip := net.ParseIP(text); ip == nil && (text == "" || strings.ContainsAny(text, ":/ ")) {
			return "", errors.New("must be a host or host:port, such as 10.0.0.5:" + locust.DefaultPort)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" ||
		strings.ContainsAny(host, "/ ") {
		return "", errors.New("must be a host or host:port, such as 10.0.0.5:" + locust.DefaultPort)
	}

	return net.JoinHostPort(host, port), nil
}

func runWorker(ctx context.Context, o *workerOptions, args []string) (err error) {
	scenario, classes, err := o.choice.find(o.Console, args)
	if err != nil {
		return err
	}
	if o.master == "" {
		return kit.Usagef("no master is given; name it with --master, such as --master 10.0.0.5")
	}

	repo, err := o.OpenAs(ctx, kit.OpenOptions{Access: kit.Create, PurgeWait: noPurgeWait})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, repo.Close()) }()

	totals, err := locust.Work(ctx, o.master, swarms(o.Connection, repo, scenario), &locust.Options{
		Scenario: scenario.Name, Classes: classes, GiveUp: o.giveUp, Log: func(text string) { o.Say("%s", text) },
		Left: func(test string) { warnLeft(o.Connection, testNamespace(scenario, test)) },
	})
	// A worker that failed before its first request has nothing to report.
	if totals.Requests > 0 || err == nil {
		o.Done("reported %d requests and %d failures to %s", totals.Requests, totals.Failures, o.master)
	}
	return err
}

// warnLeft names a namespace that may stay after this worker has left its test.
func warnLeft(conn *kit.Connection, namespace string) {
	conn.Warn(
		"left the test before its end; if no other worker takes part, its namespace stays: remove it with "+
			"\"zae-limiter namespace delete %s\" and \"zae-limiter namespace purge\"",
		namespace,
	)
}

// testNamespace returns the name of the namespace of a test.
func testNamespace(s loadtest.Scenario, test string) string { return "loadtest-" + s.Name + "-" + test }

// sharedTest is the ID of tests that the master does not name, so that the users
// of all workers have the same parent.
const sharedTest = "00000000"

// swarms returns a function that opens the swarm of a test on a store.
func swarms(conn *kit.Connection,
	repo limiter.Repository, scenario loadtest.Scenario,
) func(locust.Test) (locust.Swarm, error) {
	warned := false
	return func(test locust.Test) (locust.Swarm, error) {
		o := loadtest.SwarmOptions{ID: test.ID, Worker: test.Worker, Record: test.Record}
		// Without an ID, all workers must agree on a name for the namespace.
		if test.ID == "" {
			o.ID, o.Namespace = sharedTest, "loadtest-"+scenario.Name
			if !warned {
				warned = true
				conn.Warn(
					"the master names no test, so its users run in namespace %s, which stays; masters with "+
						"the file of \"zae-limiter loadtest locustfile\" remove theirs",
					o.Namespace,
				)
			}
		}
		return loadtest.NewSwarm(repo, scenario, &o)
	}
}
