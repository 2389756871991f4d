package webtest

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

const (
	// patience bounds the wait for a condition on a page. Only a failing test
	// waits that long.
	patience = 30 * time.Second
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
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
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

// collect reads the events of the tab until it visits the last page.
func (b *tab) collect() {
	console := chromedp.Console(b.ctx)
	requests := chromedp.Events(b.ctx, network.RequestWillBeSent)
	issues := chromedp.Events(b.ctx, audits.IssueAdded)
	b.readers.Go(func() {
		for m, err := range console {
			if err != nil || m.Text == endMark {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
				b.fault("console %s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line+1)
			}
		}
	})
	b.readers.Go(func() {
		for e, err := range requests {
			if err != nil || e.Request.URL == shared.end.URL+"/" {
				return
			}
			b.request(e.Request)
		}
	})
	go func() {
		for e, err := range issues {
			if err != nil {
				return
			}
			if d := e.Issue.Details; d != nil && d.ContentSecurityPolicyIssueDetails != nil {
				v := d.ContentSecurityPolicyIssueDetails
				b.fault("content security policy: %s violates %s", v.BlockedURL, v.ViolatedDirective)
			}
		}
	}()
}

func (b *tab) request(r *network.Request) {
	u, err := url.Parse(r.URL)
	if err != nil {
		b.fault("request to %q: %v", r.URL, err)
		return
	}
	b.mu.Lock()
	b.requests = append(b.requests, r.Method+" "+r.URL)
	known := slices.Contains(b.hosts, u.Host)
	b.mu.Unlock()
	if !known && u.Scheme != "data" && u.Scheme != "blob" {
		b.fault("request to another host: %s", r.URL)
	}
}

func (b *tab) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// allow lets the tab send requests to the hosts, given with their ports. At the
// end of the test, the tab leaves them before their servers stop.
func (b *tab) allow(hosts ...string) {
	b.t.Cleanup(func() { b.checked.Do(b.checkFaults) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts = append(b.hosts, hosts...)
}

// expect accepts faults that match a pattern, because the test causes them.
func (b *tab) expect(pattern string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, regexp.MustCompile(pattern))
}

// block makes requests fail whose URLs match a URLPattern.
func (b *tab) block(pattern string) {
	b.t.Helper()
	b.do("block "+pattern, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: pattern, Block: true}}})
		return err
	}))
}

// sent returns the requests so far, as "METHOD URL".
func (b *tab) sent() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// checkFaults fails the test for each fault that it does not expect.
func (b *tab) checkFaults() {
	if b.t.Failed() {
		b.keep("failed-" + b.t.Name())
	}
	for _, fault := range b.leave() {
		if !slices.ContainsFunc(b.expected, func(r *regexp.Regexp) bool { return r.MatchString(fault) }) {
			b.t.Error(fault)
		}
	}
}

// leave visits the last page, waits until every event before it was read, and
// returns the faults.
func (b *tab) leave() []string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(shared.end.URL+"/")); err != nil {
		return []string{fmt.Sprintf("leaving the page: %v", err)}
	}
	b.readers.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
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
