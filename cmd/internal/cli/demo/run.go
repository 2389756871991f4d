// Package demo runs a small LLM gateway that shows a limiter at work: a few keys
// call two models under several limits. It checks every admission against the
// limits.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/llm"
)

// namespace is the namespace of the demo, apart from other data of the store.
const namespace = "zae-limiter-demo"

// redrawInterval is the time between two frames.
const redrawInterval = 125 * time.Millisecond

// options configures [run]. All but Escrow, Screen and Style are required.
type options struct {
	// Open opens the store, which run closes.
	Open  func(context.Context) (limiter.Repository, error)
	Store string // name of the store
	// Escrow makes this process hold tokens of the store.
	Escrow   bool
	Seed     uint64 // of the traffic
	Duration time.Duration
	Out      io.Writer
	// Screen shows a live table. Nil prints lines to Out.
	Screen *tty.Screen
	Style  tty.Style
	// Prices returns the prices of the models large and small.
	Prices llm.PriceFunc
}

// run draws an empty frame and opens the store. It lets calls arrive for
// options.Duration or until ctx ends, waits for running calls, and prints a
// summary. It returns an error if the store or Out fails, or if more was admitted
// than the limits allow.
func run(ctx context.Context, o options) (err error) {
	// Opening a store can take long, so the first frame does not wait for it.
	d := newDisplay(o)
	if err := d.show(blank(o)); err != nil {
		return errors.Join(err, d.close())
	}

	repo, err := o.Open(ctx)
	if err != nil {
		return errors.Join(err, d.close())
	}

	book := newBook()
	var held *escrow.Repository
	if o.Escrow {
		held = escrow.New(repo, nil) //nolint:contextcheck // what it holds goes back after the run has ended
		repo, book.escrow, book.scale = held, true, busyScale
	}

	defer func() { err = errors.Join(err, repo.Close()) }()

	lim, err := openGateway(ctx, repo, book)
	if err != nil {
		return errors.Join(err, d.close())
	}

	calls, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	g := &gateway{lim: lim, prices: o.Prices, book: book, fail: fail, end: book.start.Add(o.Duration)}

	done := make(chan struct{})
	go func() {
		defer close(done)
		t := newTraffic(o.Seed)
		t.scale = book.scale
		g.run(calls, t)
	}()

	c := camera{o, lim, book, held}
	// The frames after an interrupt are read from the store, too.
	watching := context.WithoutCancel(ctx)
	watchErr := watch(watching, c, d, done, fail)
	<-done

	// A gateway that fails ends calls, and the demo fails with it. After an
	// interrupt the summary follows.
	if ctx.Err() == nil && calls.Err() != nil {
		return context.Cause(calls)
	}

	if watchErr != nil {
		return watchErr
	}

	return c.conclude(watching)
}

// openGateway returns a limiter on the demo's namespace that records every charge
// in the book.
func openGateway(ctx context.Context, repo limiter.Repository, b *book) (*limiter.RateLimiter, error) {
	if _, err := repo.RegisterNamespace(ctx, b.start, namespace); err != nil {
		return nil, err
	}

	space, err := repo.Namespace(ctx, namespace)
	if err != nil {
		return nil, err
	}

	lim, err := limiter.New(&recorder{space, b}, &limiter.Options{Principal: "zae-limiter-demo"})
	if err != nil {
		return nil, err
	}
	err = setUp(ctx, lim, int64(b.scale))
	// The time of setting up is not part of the run.
	b.start = time.Now()
	return lim, err
}

// watch shows frames until done. If the display fails, it ends the demo.
func watch(ctx context.Context, c camera, d display, done <-chan struct{}, fail context.CancelCauseFunc) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()

	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()

	for {
		err := c.show(ctx, d)
		if err != nil {
			fail(err)
			return err
		}

		select {
		case <-tick.C:
		case <-done:
			return c.show(ctx, d)
		}
	}
}

// display shows frames.
type display interface {
	show(f frame) error
	close() error
}

func newDisplay(o options) display {
	if o.Screen != nil {
		return &table{screen: o.Screen, style: o.Style}
	}
	return &lines{out: o.Out}
}

// camera takes frames of the gateway.
type camera struct {
	options
	lim  *limiter.RateLimiter
	book *book
	held *escrow.Repository // nil without escrow
}

func (c camera) show(ctx context.Context, d display) error {
	f, err := c.take(ctx)
	if err != nil {
		return err
	}
	return d.show(f)
}

// take returns the current frame.
func (c camera) take(ctx context.Context) (frame, error) {
	f := frame{Store: c.Store, Seed: c.Seed, Duration: c.Duration}
	for _, at := range buckets() {
		d, err := c.lim.Explain(ctx, limiter.Request{Entity: at.Entity, Resource: at.Resource})
		if err != nil {
			return frame{}, err
		}
		f.Rows = append(f.Rows, newRow(at, d))
	}

	c.book.fill(&f, time.Now())
	return f, nil
}

// conclude prints the summary.
func (c camera) conclude(ctx context.Context) error {
	f, err := c.take(ctx)
	if err != nil {
		return err
	}

	verdict := c.book.verdict()
	all := c.book.lines(f, time.Now())
	text := summary(f, all, verdict, c.Style)
	// A terminal of 24 lines has no room for all numbers.
	if c.Screen != nil {
		width, _ := c.Screen.Size()
		text = brief(f, all, verdict, width, c.Style)
	}

	if c.held != nil {
		text += heldSummary(c.held.Stats())
	}

	if verdict.broken == 0 {
		text += next
	}

	if _, err := fmt.Fprint(c.Out, text); err != nil {
		return err
	}

	if verdict.broken > 0 {
		return errors.New("more was admitted than the limits allow")
	}
	return nil
}
