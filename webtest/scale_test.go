package webtest

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// manyBuckets is the number of buckets of a large store.
const manyBuckets = 10_000

// newLarge returns a store with many buckets: copies of one that the limiter made.
func newLarge(t *testing.T) *store {
	t.Helper()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-00000", "gpt-4", limiter.Tokens("rpm", 40))
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO buckets_v7 (ns, entity, resource, facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled)
		SELECT ns, printf('key-%05d', i), resource, facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled
		FROM buckets_v7, n WHERE entity = 'key-00000'`, manyBuckets-1)
	s.use("key-07777", "gpt-4", limiter.Tokens("rpm", 100))
	return s
}

// TestManyBuckets loads all of a large store. The page stays small, since only rows
// near the window are elements.
func TestManyBuckets(t *testing.T) {
	t.Parallel()
	const mostElements = 3000
	s := newLarge(t)
	b := newTab(t)
	p := dashboard(t, s)
	begun := time.Now()
	b.visit(p)
	b.await("the first rows", `() => all("[data-resource]").length > 0`)
	t.Logf("first rows after %v", time.Since(begun))
	b.await("the tightest of all",
		`() => all("[data-resource]")[0]?.dataset.entity === "key-07777" && document.body.innerText.includes("10,000 scanned")`)
	t.Logf("all scanned after %v", time.Since(begun))

	for _, order := range []string{"Tightest first", "By name"} { // a search looks at all, not only at the tightest
		b.press(order)
		begun = time.Now()
		b.fill("Search", "key-09999")
		b.await("the last one by search",
			`() => Boolean(row("key-09999", "gpt-4")) && all("[data-resource]").length === 1`)
		t.Logf("%s: the last one found after %v", order, time.Since(begun))
		b.fill("Search", "")
		b.await("all again", `() => Boolean(row("key-00000", "gpt-4"))`)
	}

	begun = time.Now()
	most := eval[int](b, `async () => {
		let most = 0;
		for (let button; (button = control("button", "Show more")); await new Promise((next) => setTimeout(next))) {
			if (!button.disabled) button.click();
			most = Math.max(most, document.querySelectorAll("*").length);
		}
		return most;
	}`)
	t.Logf("all rows after %v", time.Since(begun))
	eval[bool](b, `() => { scrollTo(0, document.documentElement.scrollHeight); return true }`)
	b.await("the last row by scrolling", `() => {
		const last = row("key-09999", "gpt-4");
		if (!last) scrollTo(0, document.documentElement.scrollHeight);
		return Boolean(last) && last.getBoundingClientRect().top < innerHeight;
	}`)
	most = max(most, eval[int](b, `() => document.querySelectorAll("*").length`))
	if most > mostElements {
		t.Errorf("the page has up to %d elements, want at most %d", most, mostElements)
	}
	b.keep("many-buckets")
	s.use("key-09999", "gpt-4", limiter.Tokens("rpm", 7))
	b.await("a live change of the last row", `() => limit("key-09999", "gpt-4", "rpm").amount === "53 / 100"`)
	watched := eval[int](b, `() => all("[data-resource]").length`)
	t.Logf("%d rows of %d are elements", watched, manyBuckets)
}
