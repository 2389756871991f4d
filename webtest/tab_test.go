package webtest

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const (
	// patience bounds the wait for a condition on a page. Only a failing test
	// waits that long, and a busy machine may need some of it.
	patience = 2 * time.Minute
	// pollEvery separates two looks at a page.
	pollEvery = 20 * time.Millisecond
	// endMark is the last line on the console of every tab.
	endMark = "zae-limiter webtest: end"
	// reboundHost is a name that resolves to this machine, as an attacker's name
	// does after DNS rebinding.
	reboundHost = "rebound.example"
)

// pageScript holds functions for the functions that tests evaluate.
//
//go:embed page.js
var pageScript string

// tab is a page in a browser session of its own: it shares no cookie or cache
// with other tabs. It collects faults, which fail the test: console errors,
// uncaught exceptions, violations of the content security policy, and requests
// to other hosts.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	hosts    []string
	expected []*regexp.Regexp
	faults   []string
	requests []string
	readers  sync.WaitGroup
	checked  sync.Once
}

// newTab opens a tab of 1280 x 800 pixels in light mode.
func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, hosts: []string{strings.TrimPrefix(shared.end.URL, "http://")}}
	t.Cleanup(closeTab)
	b.do("open a tab", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	b.collect()
	b.resize(1280, 800)
	b.media("light", false)
	return b
}

// in makes a subtest report what fails, until it ends.
func (b *tab) in(t *testing.T) {
	t.Helper()
	outer := b.t
	b.t = t
	t.Cleanup(func() { b.t = outer })
}

// do runs steps and fails the test if one fails.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if chromedp.FromContext(b.ctx).Target == nil {
		ctx = b.ctx // the first call binds the life of the tab to its context
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// open visits a page of a server of the test.
func (b *tab) open(address string) {
	b.t.Helper()
	b.do("open "+address, chromedp.Navigate(address))
}

// eval calls a function of JavaScript, given by its source, with arguments that
// JSON can hold. It awaits promises.
func eval[T any](b *tab, function string, args ...any) T {
	b.t.Helper()
	value, err := tryEval[T](b, function, args...)
	if err != nil {
		b.t.Fatalf("%s: %v", function, err)
	}
	return value
}

func tryEval[T any](b *tab, function string, args ...any) (T, error) {
	list := make([]string, len(args))
	for i, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			var zero T
			return zero, err
		}
		list[i] = string(text)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	source := fmt.Sprintf("(() => {%s\nreturn (%s)(%s)})()", pageScript, function, strings.Join(list, ", "))
	return chromedp.Run(ctx, chromedp.Evaluate[T](source, chromedp.EvalAwaitPromise))
}

// await looks at the page until a function of JavaScript returns true. A page
// that is being replaced counts as false.
func (b *tab) await(what, function string, args ...any) {
	b.t.Helper()
	if err := b.awaitWithin(patience, function, args...); err != nil {
		b.t.Fatalf("waited in vain for %s: %v\nthe page says:\n%s", what, err, b.text())
	}
}

func (b *tab) awaitWithin(limit time.Duration, function string, args ...any) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	every := time.NewTicker(pollEvery)
	defer every.Stop()
	for {
		ok, err := tryEval[bool](b, function, args...)
		if ok && err == nil {
			return nil
		}
		select {
		case <-end.C:
			return errors.Join(err, fmt.Errorf("not within %v: %s", limit, function))
		case <-every.C:
		}
	}
}

// text returns the text of the page, for messages of failing tests.
func (b *tab) text() string {
	text, err := tryEval[string](b, `() => location.href + "\n" + document.body.innerText`)
	if err != nil {
		return err.Error()
	}
	return text
}
