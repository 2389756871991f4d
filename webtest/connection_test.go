package webtest

import (
	"regexp"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// lostConnection matches what the browser reports while the server is away, and
// when the session is gone after a restart.
const lostConnection = `Failed to load resource: (net::ERR_|the server responded with a status of 401)`

// TestConnectionLost kills the server of a page without a login, and starts it
// again: the page says so and is live again by its button.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-1", "gpt-4", limiter.Tokens("rpm", 10))
	p := serve(t, s)
	b := newTab(t)
	b.allow(p.host())
	b.expect(lostConnection)
	b.open(p.URL)
	b.awaitLive()
	b.await("the row", `() => limit("key-1", "gpt-4", "rpm")?.amount === "90 / 100"`)
	p.kill()
	b.await("the pill Disconnected", `() => pill() === "Disconnected"`)
	b.keep("disconnected")
	s.use("key-1", "gpt-4", limiter.Tokens("rpm", 5))
	p.restart()
	// The page tries by itself, too, and on a busy machine it may be first.
	b.await("a live page by its button", `() => {
		const button = control("button:enabled", "Reconnect");
		if (button && !window.webtestPressed) button.click();
		window.webtestPressed ||= Boolean(button);
		return pill() === "Live";
	}`)
	b.await("what happened meanwhile", `() => limit("key-1", "gpt-4", "rpm")?.amount === "85 / 100"`)
}

// TestReconnectByItself leaves the button alone.
func TestReconnectByItself(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := serve(t, s)
	b := newTab(t)
	b.allow(p.host())
	b.expect(lostConnection)
	b.open(p.URL)
	b.awaitLive()
	p.kill()
	b.await("the pill Disconnected", `() => pill() === "Disconnected"`)
	p.restart()
	b.awaitLive()
}

// TestNewTokenAfterRestart restarts a dashboard whose token is spent: the page
// asks for the new one.
func TestNewTokenAfterRestart(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-1", "gpt-4", limiter.Tokens("rpm", 10))
	p := dashboard(t, s)
	b := newTab(t)
	b.expect(lostConnection)
	b.visit(p)
	if got := eval[string](b, `() => location.href`); !regexp.MustCompile(
		`^` + regexp.QuoteMeta(p.origin()) + `/s/[\w-]{22}/(#/)?$`,
	).MatchString(got) {
		t.Errorf("the address is %s", got)
	}
	// A script of this origin finds the path of the session, and never the cookie.
	if kept := eval[string](
		b, `() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })`,
	); !regexp.MustCompile(`^\{"session of /":"s/[\w-]{22}/"\}$`).MatchString(kept) {
		t.Errorf("a script can read %s", kept)
	}
	old := p.token()
	p.kill()
	b.await("the pill Disconnected", `() => pill() === "Disconnected"`)
	p.restart()
	b.await("the form for a token", `() => Boolean(control("input", "Token"))`)
	b.fill("Token", old)
	b.press("Sign in")
	b.await("the refusal of the old token", `() => all("[role=alert]").some((e) => e.textContent.includes("token"))`)
	b.keep("token")
	b.fill("Token", p.token())
	b.press("Sign in")
	b.awaitLive()
	b.await("the row", `() => Boolean(row("key-1", "gpt-4"))`)
}

// TestTokenWorksOnce opens the URL of a dashboard in two browsers.
func TestTokenWorksOnce(t *testing.T) {
	t.Parallel()
	p := dashboard(t, newStore(t))
	first := newTab(t)
	first.visit(p)
	second := newTab(t)
	second.allow(p.host())
	second.expect(lostConnection)
	second.open(p.URL)
	second.await("the form for a token", `() => Boolean(control("input", "Token")) && pill() !== "Live"`)
	first.open(p.origin() + "/") // the page finds its session
	first.awaitLive()
}

// TestInterrupt ends the program while a page is open, as Ctrl-C does. A stream of
// the page that held it up would end with an error: requests are still under way.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, *store) *program{
		"dashboard": func(t *testing.T, s *store) *program { t.Helper(); return dashboard(t, s) },
		"serve":     func(t *testing.T, s *store) *program { t.Helper(); return serve(t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, newStore(t))
			b := newTab(t)
			b.expect(lostConnection)
			b.visit(p)
			begun := time.Now()
			p.interrupt()
			t.Logf("the program ended after %v", time.Since(begun))
			b.await("the pill Disconnected", `() => pill() === "Disconnected"`)
		})
	}
}
