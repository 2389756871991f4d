package webtest

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

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
		_, err := cdp.Call(ctx, target, network.SetBlockedURLs, network.SetBlockedURLsParams{
			URLPatterns: []*network.BlockPattern{{URLPattern: pattern, Block: true}},
		})
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
