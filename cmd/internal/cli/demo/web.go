package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/dashboard"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/webdemo"
)

// webDemo holds the flags of demo --web.
type webDemo struct {
	web, insecure, noBrowser bool
	listen                   string
}

const webDemoAddress = "127.0.0.1:8080"

func (o *webDemo) addFlags(cmd *cobra.Command) {
	o.listen = webDemoAddress

	flags := cmd.Flags()

	flags.BoolVar(&o.web, "web", false, "serve the demo as a web page, until Ctrl-C")
	kit.AddFlag(cmd, &o.listen, "listen", "address", webDemoAddress, "address of the page; port 0 chooses a free one",
		kit.ParseAddress)
	flags.BoolVar(&o.insecure, "insecure", false,
		"let other machines reach the page, which has no password; for containers")
	flags.BoolVar(&o.noBrowser, "no-browser", false, "print the URL of the page, and open no browser")
}

// check rejects flags that have no effect.
func (o *webDemo) check(cmd *cobra.Command) error {
	terminal, web := []string{"duration", "escrow"}, []string{"listen", "insecure", "no-browser"}
	for _, flag := range terminal {
		if o.web && cmd.Flags().Changed(flag) {
			return kit.Usagef("--%s has no effect with --web, which runs until Ctrl-C; leave one of them out", flag)
		}
	}

	for _, flag := range web {
		if !o.web && cmd.Flags().Changed(flag) {
			return kit.Usagef("--%s has no effect without --web; add it or leave the flag out", flag)
		}
	}
	return nil
}

// run serves the demo until ctx ends. It binds the address before it opens the
// store.
func (o *webDemo) run(ctx context.Context, c *kit.Console, s kit.Store, seed uint64) (err error) {
	listener, err := listen.Bind(ctx, o.listen, o.insecure)
	// The demo has no password, so only --insecure exposes it.
	if errors.Is(err, listen.ErrExposed) {
		return kit.Usagef(
			"--listen %s: other machines can reach it, and the demo has no password; listen on a loopback "+
				"address, or give --insecure in a container",
			o.listen,
		)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"--listen %s: the address is in use, maybe by another demo; choose another port, or 0 for a free one",
			o.listen,
		)
	}

	if err != nil {
		return err
	}
	// Run closes the listener, too. This is for a return before Run.
	defer func() { _ = listener.Close() }()

	repo, err := s.Open(ctx, kit.OpenOptions{Access: kit.Create})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, repo.Close()) }()
	return o.serve(ctx, c, listener, repo, s.Name, seed)
}

// serve serves the demo on a store.
func (o *webDemo) serve(
	ctx context.Context, c *kit.Console, listener net.Listener, repo limiter.Repository, name string, seed uint64,
) error {
	onError := (&kit.Throttled{Warn: c.Warn}).Report

	space, lim, err := openWebDemo(ctx, c, repo)
	if err != nil {
		return err
	}

	page, err := dashboard.New(&dashboard.Options{
		Open:      func(context.Context, string) (limiter.Repository, error) { return space, nil },
		Namespace: webdemo.Namespace, Store: name, Write: true, Principal: webDemoPrincipal, Authenticate: anyViewer,
		Version: c.Version, Now: c.Now, Demo: webdemo.NewInfo(), OnError: onError,
	})
	if err != nil {
		return err
	}

	//nolint:contextcheck // each call has a context of its own
	handler, err := webdemo.New(lim, &webdemo.Options{
		Dashboard: page, Seed: seed, Version: c.Version, OnError: onError,
	})
	if err != nil {
		return errors.Join(err, page.Close())
	}

	closeAll := func(context.Context) error { return errors.Join(handler.Close(), page.Close()) }

	var traffic sync.WaitGroup
	// Deferred calls run in reverse order: stop ends the traffic before Wait
	// waits for it.
	defer traffic.Wait()
	// The traffic must also end if the server fails.
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	at := "http://" + reachable(listener.Addr()) + "/dashboard/"
	if _, err := fmt.Fprintln(c.Out, at); err != nil {
		return errors.Join(err, closeAll(ctx))
	}

	c.Say("The demo runs on %s; Ctrl-C stops it.", name)
	if !o.noBrowser && kit.HasScreen(runtime.GOOS) {
		c.StartBrowser(ctx, at)
	}

	traffic.Go(func() { handler.RunTraffic(ctx) })

	return listen.Run(ctx, &listen.RunOptions{
		DrainTimeout: webDemoDrain, Close: closeAll,
		// A stream never ends by itself, and the drain would wait for it.
		Quiesce: func(ctx context.Context) { _ = closeAll(ctx) },
	},
		// A bound would count requests whose body never comes, and so let them
		// keep out others. The number of connections is bounded anyway.
		listen.HTTP(listener, handler, &listen.Options{MaxRequests: -1}),
	)
}

// webDemoDrain is the time for calls under way when the demo ends.
const webDemoDrain = 5 * time.Second

// webDemoPrincipal is the author of changes in the audit trail.
const webDemoPrincipal = "zae-limiter-demo"

// anyViewer admits every viewer without a token: the data are made up, and only
// pages of the demo reach it.
func anyViewer(bearer string) (dashboard.Session, bool) {
	return dashboard.Session{Name: webDemoPrincipal, Role: dashboard.RoleAdmin}, bearer == ""
}

// reachable returns the host and port by which this machine reaches an address.
func reachable(addr net.Addr) string {
	if at, ok := addr.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(at.Port))
	}
	return addr.String()
}

// openWebDemo returns the namespace of the demo with its entities and limits, and a
// limiter on it.
func openWebDemo(
	ctx context.Context, c *kit.Console, repo limiter.Repository,
) (limiter.Repository, *limiter.RateLimiter, error) {
	if _, err := repo.RegisterNamespace(ctx, c.Now(), webdemo.Namespace); err != nil {
		return nil, nil, err
	}

	space, err := repo.Namespace(ctx, webdemo.Namespace)
	if err != nil {
		return nil, nil, err
	}

	lim, err := limiter.New(space, &limiter.Options{Principal: webDemoPrincipal})
	if err != nil {
		return nil, nil, err
	}

	return space, lim, webdemo.Seed(ctx, lim)
}
