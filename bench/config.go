package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// config selects what to measure and for how long.
type config struct {
	rounds  int
	sample  time.Duration // approximate time of one contender in one round
	keys    []int         // in memory, ascending from 1
	workers []int         // goroutines on memory, ascending from 1
	callers []int         // goroutines on sqlite, ascending from 1
	limits  []int         // of one bucket, ascending from 1
	changes []int         // of buckets, for an aggregator: few and many
	// waiters are numbers of waiters: beside a busy key, in a short line, and
	// in a long line.
	waiters []int
	// stay is how long a busy key is measured beside waiters, which retry every
	// 5 s.
	stay   time.Duration
	users  int            // of a load test
	span   time.Duration  // length of a load, by its own clock
	only   *regexp.Regexp // names of sections
	write  string         // page whose figures are replaced; "" for none
	engine string         // script that runs DynamoDB Local; "" leaves it out
	minute time.Duration  // length of the longest demand on an escrow
	redis  string         // program of Redis; "" leaves it out
	python string         // script that installs the Python library; "" leaves it out
	wire   string         // package with the benchmark of the wire; "" leaves it out
}

func fullConfig() config {
	return config{
		rounds: 7, sample: 150 * time.Millisecond,
		keys: []int{1, 100_000, 1_000_000}, workers: []int{1, 2}, callers: []int{1, 16}, limits: []int{1, 2, 4, 16},
		changes: []int{10_000, 100_000}, waiters: []int{1000, 2000, 20_000}, stay: 6 * time.Second,
		users: 100_000, span: 30 * time.Second, minute: time.Minute, redis: "redis-server",
		only: regexp.MustCompile(""), engine: "../scripts/dynamodb-local", python: "../scripts/python-peer",
		wire: "./dynamo/internal/wire",
	}
}

// quickConfig returns a configuration for a quick look and for CI: it runs
// everything, with rough numbers.
func quickConfig() config {
	cfg := fullConfig()
	cfg.rounds, cfg.sample = 3, 20*time.Millisecond
	cfg.keys = []int{1, 1000, 20_000}
	cfg.stay, cfg.span, cfg.minute = 100*time.Millisecond, 5*time.Second, 8*time.Second
	return cfg
}

// parse reads the command line. It prints its errors.
func parse(args []string, errs io.Writer) (config, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	rounds := flags.Int("rounds", 0, "how many `rounds` to run (default 7, with -quick 3)")
	quick := flags.Bool("quick", false, "fewer keys, shorter samples: a few seconds in all")
	only := flags.String("only", "",
		"run the sections whose name matches this `regexp`: "+strings.Join(sectionNames(), ", "))
	write := flags.String("write", "", "also replace the figures of this `page`")

	if err := flags.Parse(args); err != nil {
		return config{}, err
	}

	cfg := fullConfig()
	if *quick {
		cfg = quickConfig()
	}
	if *rounds > 0 {
		cfg.rounds = *rounds
	}

	pattern, err := regexp.Compile(*only)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not expected", flags.Arg(0))
	}
	if err == nil && *rounds < 0 {
		err = errors.New("-rounds must be positive")
	}

	if err != nil {
		// Package flag prints its own errors, but not these.
		fmt.Fprintln(errs, "bench:", err)
		return config{}, err
	}

	cfg.only, cfg.write = pattern, *write
	return cfg, nil
}

// section is a part of the report that can run alone.
type section struct {
	name, title string
	run         func(context.Context, config, *report) error
}

// sections lists the sections in order. The first needs a small heap.
var sections = []section{
	{"memory", "two-limit acquire+commit on memory beside a single-limit take", memorySection},
	{"limits", "acquire+commit on memory by number of limits", limitsSection},
	{"sqlite", "two-limit acquire+commit on sqlite beside one bare prepared UPDATE .. RETURNING", sqliteSection},
	{"wait", "a busy key on sqlite beside keys that wait, and lines of waiters that leave", waitSection},
	{"allocs", "allocations of one operation", allocsSection},
	{
		"dynamo",
		"two-limit acquire+commit on DynamoDB Local beside a raw UpdateItem of the SDK and the Python library",
		dynamoSection,
	},
	{"dynamo-client", "the client alone: CPU and allocations of a call to a stub", clientSection},
	{"wire", "the CPU of an UpdateItem over our wire beside the SDK's, with a stub that answers at once", wireSection},
	{
		"escrow",
		"tokens in escrow beside a raw UpdateItem, the plain acquire, memory and redis_rate, and under the " +
			"demand of several processes",
		escrowSection,
	},
	{"aggregator", "changes of buckets to usage, beside a plain loop, and what memory that takes", aggregatorSection},
	{
		"loadtest",
		"the load generator: its cost for a task, its memory, and its throughput beside a plain loop",
		loadtestSection,
	},
	{"front", "in front of traffic: what each place adds to a server without limits", frontSection},
	{
		"refill",
		"second requests for an acquire on DynamoDB Local, with an aggregator that refills and without",
		refillSection,
	},
}

func sectionNames() []string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return names
}
