package webtest

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// newBudget returns a store in which key-1 has used $2.50 of its $10 a month.
func newBudget(t *testing.T) *store {
	t.Helper()
	s := newStore(t)
	s.limits("key-1", "gpt-4", limiter.Quota("spend", 10_000_000, limiter.EveryMonth))
	s.use("key-1", "gpt-4", limiter.Tokens("spend", 2_500_000))
	return s
}

// watchRequests counts the requests whose answer the page has not read yet, and lists
// those that post a form.
const watchRequests = `() => {
	Object.assign(window, { pending: 0, posts: [] });
	const send = window.fetch;
	window.fetch = async (path, options) => {
		if (options?.method === "POST" && path !== "api/watch") window.posts.push(path);
		window.pending++;
		try {
			const response = await send(path, options);
			await response.clone().text();
			return response;
		} finally {
			setTimeout(() => window.pending--);
		}
	};
	return true;
}`

// refused checks that the form sends nothing while a field has a text, and that one
// sentence says why.
func (b *tab) refused(label, text, button, want string) {
	b.t.Helper()
	b.fill(label, text)
	b.press(button)
	if got := eval[string](b, `(n) => control("input", n).validationMessage`, label); got != want {
		b.t.Errorf("%s %q: the page says %q, want %q", label, text, got, want)
	}
	if sent := eval[[]string](b, `() => window.posts`); len(sent) > 0 {
		b.t.Errorf("%s %q: the page sent %q", label, text, sent)
	}
}

// says waits for a text in the view.
func (b *tab) says(text string) {
	b.t.Helper()
	b.await(text, `(text) => document.querySelector("main").innerText.replace(/\s+/g, " ").includes(text)`, text)
}

const (
	dollarsOnly   = "spend counts money: enter dollars with their sign, such as $20 or $0.25."
	dollarsAbove0 = "spend counts money: enter dollars above $0 with their sign, such as $20 or $0.25."
	wholeNumber   = "Enter a whole number from 1 to 9,007,199,254,740,991."
)

// TestBudgetIsSetInDollars sets a budget as people write it.
func TestBudgetIsSetInDollars(t *testing.T) {
	t.Parallel()
	s := newBudget(t)
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	b.view("#/changes?action=set_limits&entity=key-1&resource=gpt-4")
	b.await("the budget in dollars", `() => control("input", "Capacity")?.value === "$10.00"`)
	eval[bool](b, watchRequests)
	for _, text := range []string{"20", "10000000", "$", "$0", "$-5", "20$", "$1,000", "$0.0000001", "$20 a month", ""} {
		b.refused("Capacity", text, "Preview", dollarsAbove0)
	}
	b.keep("money-refused")

	b.fill("Capacity", "$0.00002")
	b.press("Preview")
	b.says("spend $0.00002@month is below a cent; if you mean dollars, give them with their sign, such as $50.")
	b.says("The capacity of spend shrinks from $10.00 to $0.00002;")
	b.fill("Capacity", "$20")
	b.press("Preview")
	b.says("After spend $20.00 / month")
	if warned := eval[bool](b, `() => all(".warnings li").length > 0`); warned {
		t.Errorf("more money has a warning\n%s", b.text())
	}
	b.keep("money-preview")
	b.press("Set limits as")
	b.says("Set limits: done.")
	limits, err := s.lim.Limits(t.Context(), "key-1", "gpt-4")
	s.must(err)
	if len(limits) != 1 || limits[0] != limiter.Quota("spend", 20_000_000, limiter.EveryMonth) {
		t.Errorf("the page set %v", limits)
	}

	// The name decides what the amounts count.
	eval[bool](b, `() => { window.posts = []; return true }`)
	b.fill("Name", "rpm")
	b.refused("Capacity", "$20", "Preview", wholeNumber)
}

// TestEveryFormTakesDollars tops up, explains and replays.
func TestEveryFormTakesDollars(t *testing.T) {
	t.Parallel()
	s := newBudget(t)
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	eval[bool](b, watchRequests)
	proposed := func(label, value string) {
		t.Helper()
		b.await(label+" "+value, `(n, v) => control("input", "Name")?.value === "spend" && control("input", n).value === v`, label, value)
	}

	b.view("#/changes?action=top_up&entity=key-1&resource=gpt-4")
	proposed("Amount", "$0.01")
	b.refused("Amount", "1", "Preview", dollarsAbove0)
	b.fill("Amount", "$1.5")
	b.press("Preview")
	b.says("spend: $7.50 of $10.00 available, $9.00 after it.")
	b.press("Top up as")
	b.says("Top up: done.")
	left, err := s.lim.Available(t.Context(), "key-1", "gpt-4")
	s.must(err)
	if left.Get("spend") != 9_000_000 {
		t.Errorf("%v are left", left)
	}

	eval[bool](b, `() => { window.posts = []; return true }`)
	b.view("#/explain?entity=key-1&resource=gpt-4")
	proposed("Amount", "$0.01")
	b.refused("Amount", "5", "Explain", dollarsOnly)
	b.fill("Amount", "$9.25")
	b.press("Explain")
	b.await("the refusal", `() => all("[data-verdict=waits]").length === 1`)
	b.says("$9.25")
	b.keep("money-explain")
	b.view("#/explain?entity=key-1&resource=gpt-4&consume=spend%3A9250000")
	proposed("Amount", "$9.25")

	eval[bool](b, `() => { window.posts = []; return true }`)
	b.view("#/what-if?entity=key-1&resource=gpt-4")
	proposed("Capacity", "$10.00")
	b.refused("Capacity", "1", "Replay", dollarsAbove0)
	b.fill("Capacity", "$0.005")
	b.press("Replay")
	b.await("the report", `() => all("[data-verdict=waits]").length === 1`)
	b.says("spend $0.005@month is below a cent")
	b.says("spend $0.005 / month")
	b.keep("money-what-if")
}

// TestAmountsKeepTheirDigits reads back what the page shows in a field, up to the
// largest amount that a script holds exactly.
func TestAmountsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	got := eval[[]string](b, `async () => {
		const { amountOf, amountText, exact, compact } = await import(new URL("format.js", document.querySelector("script").src));
		const wrong = [];
		const want = (what, got, right) => got === right || wrong.push(what + " is " + got + ", want " + right);
		for (const [n, text] of [[1, "$0.000001"], [125, "$0.000125"], [10000, "$0.01"], [250000, "$0.25"], [12500000, "$12.50"],
			[1234567890, "$1234.56789"], [9007199254740991, "$9007199254.740991"]]) {
			want(n, amountText(n, "spend"), text);
			want(text, amountOf(text, "spend_daily"), n);
		}
		want("tokens", amountText(1250, "tpm"), 1250);
		want("tokens", amountOf("1250", "tpm"), 1250);
		want("all digits", exact(9007199254740991, "spend"), "$9,007,199,254.740991");
		want("debt", exact(-1500000, "spend"), "−$1.50");
		want("cut to cents", compact(12509999, "spend"), "$12.50");
		want("below a cent", compact(9999, "spend"), "$0.009999");
		want("nothing", compact(0, "spend"), "$0.00");
		return wrong;
	}`)
	for _, wrong := range got {
		t.Error(wrong)
	}
}

// TestFormsProposeTheirScope types an entity whose key never used the first resource
// of the alphabet: no form shows the limits of that one.
func TestFormsProposeTheirScope(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "aaa", fixed("foreign", 7))
	s.limits("", "gpt-4", fixed("rpm", 20))
	s.limits("key-2", "", fixed("tpm", 30))
	s.use("key-1", "gpt-4", requestsOnly(1))
	s.entity(limiter.Entity{ID: "key-3"})
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	b.expect(`status of 404`) // a resource that nothing uses
	eval[bool](b, watchRequests)
	for _, form := range []string{"#/changes?action=set_limits", "#/explain?", "#/what-if?"} {
		for _, c := range []struct{ scope, want string }{
			{"&entity=key-1", ""},
			{"&entity=key-1&resource=gpt-4", "rpm"},
			{"&entity=key-1&resource=unknown", ""},
			{"&entity=key-2", "tpm"},
			{"&entity=key-2&resource=aaa", "tpm"},
			{"&resource=gpt-4", "rpm"},
		} {
			b.view(form + c.scope)
			b.proposes(form+c.scope, c.want)
		}
		// Another scope takes back what does not apply to it.
		b.view(form + "&entity=key-2")
		b.proposes(form, "tpm")
		b.fill("Entity", "key-1\t")
		b.proposes(form+" after key-2", "")
	}
	b.view("#/entity?id=key-3")
	b.follow("Explain a request")
	b.await("no resource", `() => heading() === "Explain" && control("input", "Resource").value === ""`)
	b.proposes("an entity without buckets", "")
}

// proposes waits until a form has asked the server, and checks the names of its lines.
func (b *tab) proposes(form, want string) {
	b.t.Helper()
	b.await(form+" proposes "+want,
		`(want) => window.pending === 0 && all("input[name=name]").map((e) => e.value).join() === want`, want)
}
