// Command bench compares the speed of the limiter with other limiters, bare SQL
// and the raw client of DynamoDB. Nanoseconds depend on the machine, so bench
// reports ratios. All contenders run in one process, a short sample each, in
// turn, for several rounds. A ratio is taken within a round, and the result is
// the median over the rounds. DynamoDB Local, Python and the stub of a table run
// in processes of their own, so CPU times include the client alone. So do the
// servers of zae-limiter, which bench builds and runs as users do, and the servers
// that they are compared with.
//
// A missed target is printed and is not an error: the exit code is 0 unless
// something breaks. Run bench on an idle machine.
//
//	go run . [-quick] [-rounds n] [-only regexp] [-write page]
//
// With the argument report, it measures absolute figures instead and writes
// docs/benchmarks.md and its charts.
//
//	go run . report [-quick] [-only regexp]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns the exit code. An interrupt ends the
// current sample and removes the files.
func command(args []string, out, errs io.Writer) int {
	if work := childWork(args, out); work != nil {
		if err := work(context.Background()); err != nil {
			fmt.Fprintln(errs, "bench:", err)
			return 1
		}
		return 0
	}
	if len(args) > 0 && args[0] == pageCommand {
		return page(args[1:], out, errs)
	}
	cfg, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // parse has printed the error
	}
	return interruptible(errs, func(ctx context.Context) error {
		if cfg.write != "" {
			return quote(ctx, cfg, out)
		}
		return run(ctx, cfg, out)
	})
}

// childWork returns the work of a process that this program starts, or nil.
func childWork(args []string, out io.Writer) func(context.Context) error {
	switch {
	case len(args) == 2 && args[0] == stubCommand:
		return func(ctx context.Context) error { return serveStub(ctx, args[1], os.Stdin, out) }
	case len(args) == 2 && args[0] == takerCommand:
		return func(ctx context.Context) error { return serveTaker(ctx, args[1], os.Stdin, out) }
	case len(args) == 3 && args[0] == redisCommand:
		return func(ctx context.Context) error { return serveRedis(ctx, args[1], args[2], os.Stdin, out) }
	case len(args) == 3 && args[0] == baselineCommand:
		return func(ctx context.Context) error { return serveBaseline(ctx, args[1], args[2], os.Stdin, out) }
	case len(args) > 1 && args[0] == programCommand:
		return func(ctx context.Context) error { return serveProgram(ctx, args[1:], os.Stdin, out) }
	case len(args) == 3 && args[0] == usersCommand:
		return func(ctx context.Context) error { return serveUsers(ctx, args[1], args[2], out) }
	}
	return nil
}

// page writes the page of figures and returns the exit code.
func page(args []string, out, errs io.Writer) int {
	o, err := parsePage(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // parsePage has printed the error
	}
	return interruptible(errs, func(ctx context.Context) error { return writePage(ctx, o, out) })
}

// interruptible runs work until an interrupt and returns the exit code.
func interruptible(errs io.Writer, work func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx); err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 1
	}
	return 0
}

// run measures and prints the selected sections, then the verdicts.
func run(ctx context.Context, cfg config, out io.Writer) error {
	r := &report{out: out}
	return r.run(ctx, cfg)
}

func (r *report) run(ctx context.Context, cfg config) error {
	r.line("%s %s/%s, %d CPUs, %.1f of them free at the start", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), freeCPUs())
	r.line("%d rounds, samples of %v; values are medians, with quartiles in brackets", cfg.rounds, cfg.sample)
	for _, s := range sections {
		if !cfg.only.MatchString(s.name) {
			continue
		}
		r.line("\n%s: %s", s.name, s.title)
		if err := s.run(ctx, cfg, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return r.verdicts()
}
