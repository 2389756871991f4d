package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/dashboard"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

// dashboardDrain bounds the end of the command after an interrupt. Streams end at
// once, so only requests under way need time.
const dashboardDrain = 2 * time.Second

// runDashboard serves the page until ctx ends. It binds the address before it opens
// the store.
func runDashboard(ctx context.Context, o *dashboardOptions) (err error) {
	if o.Principal != "" && !o.write {
		return kit.Usagef("--principal is the author of changes, so it needs --write")
	}

	listener, err := o.bind(ctx)
	if err != nil {
		return err
	}

	// Run closes the listener, too. This is for a return before Run.
	defer func() { _ = listener.Close() }()

	repo, err := o.openToShow(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	token, _ := server.NewToken()
	page, err := dashboard.New(&dashboard.Options{
		Open:      func(context.Context, string) (limiter.Repository, error) { return repo, nil },
		Namespace: o.NamespaceName(), Store: o.Selected.Name, Write: o.write, ReadBudget: float64(o.readBudget),
		Token: token, Principal: o.Author(), Version: o.Version, Now: o.Now,
		OnError: (&kit.Throttled{Warn: o.Warn}).Report,
	})
	if err != nil {
		return kit.Usagef("%v", err)
	}
	return o.serve(ctx, page, listener, token)
}

// bind binds the address of the page, which must be a loopback address.
func (o *dashboardOptions) bind(ctx context.Context) (net.Listener, error) {
	listener, err := listen.Bind(ctx, o.listen, false)
	switch {
	case errors.Is(err, listen.ErrExposed):
		return nil, kit.Usagef(
			"--listen %s: other machines can reach it; listen on a loopback address, or use "+
				`"zae-limiter serve --dashboard", which has tokens and TLS`,
			o.listen,
		)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(
			"--listen %s: the address is in use, maybe by another dashboard; choose another port, or 0 for a free one",
			o.listen,
		)
	}
	return listener, err
}

// openToShow opens the store, which must exist, and checks that it answers.
func (o *dashboardOptions) openToShow(ctx context.Context) (limiter.Repository, error) {
	access := kit.AccessRead
	if o.write {
		access = kit.AccessChange
	}

	repo, err := o.Open(ctx, access)
	if err != nil {
		return nil, err
	}
	if err := repo.Ping(ctx); err != nil {
		return nil, errors.Join(err, repo.Close())
	}

	if o.Selected.Name == kit.MemoryStore {
		o.Warn(
			"%s belongs to one process, so this one is empty; "+
				`"zae-limiter serve --dashboard" shows the memory of a server`,
			kit.MemoryStore,
		)
	}

	return repo, nil
}

// serve prints the URL, opens the browser, and serves until ctx ends.
func (o *dashboardOptions) serve(
	ctx context.Context, page *dashboard.Handler, listener net.Listener, token string,
) error {
	at := "http://" + listener.Addr().String() + "/"

	changes := "read only"
	if o.write {
		changes = "with changes"
	}

	o.Done("Showing the limits %s, %s; Ctrl-C ends it", o.Location(), changes)
	if _, err := fmt.Fprintf(o.Out, "%s#token=%s\n", at, token); err != nil {
		return errors.Join(err, page.Close())
	}

	if !o.noBrowser {
		defer o.OpenBrowser(ctx, at, token)()
	}

	return listen.Run(ctx, &listen.RunOptions{
		DrainTimeout: dashboardDrain,
		// A stream of events never ends by itself, and the drain would wait for it.
		Quiesce: func(context.Context) { _ = page.Close() },
		Close:   func(context.Context) error { return page.Close() },
	},
		// The page bounds requests itself.
		listen.HTTP(listener, page, &listen.Options{MaxRequests: -1, Vouching: true}),
	)
}
