package repotest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// pageChecks returns checks that skip a store that is no limiter.BucketPager.
func pageChecks() []check {
	checks := []check{
		{"buckets are by entity, then resource, in pages of any size", pagesOfAnySize},
		{"a prefix selects entities", pagesByPrefix},
		{"names are compared by their bytes", pagesByBytes},
		{"long names", pagesOfLongNames},
		{"the cursor stays valid while buckets come and go", pagesUnderChange},
		{"a cursor of nothing is invalid", pagesWithBadCursors},
		{"expired buckets are left out", pagesWithoutExpired},
		{"other namespaces are left out", pagesOfNamespace},
		{"many buckets of one entity", pagesWithinEntity},
		{"more than a page for one request", pagesOfMany},
		{"balances, limits and sources agree with the list", pagesAgree},
		{"buckets by key", bucketsByKey},
		{"the time of the last refill", pagesUpdated},
		{"pages are the caller's to change", pagesAreCopies},
	}
	for i, c := range checks {
		checks[i].run = func(f *fixture) {
			if _, ok := limiter.Optional[limiter.BucketPager](f.repo); !ok {
				f.Skip("the store is no limiter.BucketPager")
			}
			c.run(f)
		}
	}
	return checks
}

func (f *fixture) pager() limiter.BucketPager {
	f.Helper()
	pager, ok := limiter.Optional[limiter.BucketPager](f.repo)
	if !ok {
		f.Fatal("the view is no limiter.BucketPager")
	}
	return pager
}

// page returns one page at the epoch.
func (f *fixture) page(q limiter.BucketQuery) limiter.BucketPage {
	f.Helper()
	page, err := f.pager().BucketPage(f.ctx, epoch, q)
	f.ok("BucketPage", err)

	if size := cmp.Or(q.Max, 100); len(page.Buckets) > size {
		f.Errorf("a page of %d buckets, want at most %d", len(page.Buckets), size)
	}

	if page.Scanned < len(page.Buckets) {
		f.Errorf("%d buckets scanned for a page of %d", page.Scanned, len(page.Buckets))
	}

	if strings.ContainsFunc(page.Next, func(c rune) bool { return c <= ' ' || c > '~' }) {
		f.Errorf("the cursor %q is not printable ASCII", page.Next)
	}
	return page
}

// pages returns the buckets of all pages from q on.
func (f *fixture) pages(d time.Duration, q limiter.BucketQuery) []limiter.Bucket {
	f.Helper()
	all, err := readPages(f.ctx, f.pager(), at(d), q)
	f.ok("BucketPage", err)
	return all
}

// maxPages bounds the pages of one list, so that a store that repeats one fails.
const maxPages = 10_000

func readPages(
	ctx context.Context, pager limiter.BucketPager, now time.Time, q limiter.BucketQuery,
) (all []limiter.Bucket, err error) {
	for range maxPages {
		page, err := pager.BucketPage(ctx, now, q)
		if err != nil {
			return nil, err
		}

		all = append(all, page.Buckets...)
		if page.Next == "" {
			return all, nil
		}

		q.After = page.Next
	}
	return nil, fmt.Errorf("more than %d pages", maxPages)
}

// namesOf returns "entity resource" of each bucket.
func namesOf(buckets []limiter.Bucket) (names []string) {
	for _, b := range buckets {
		names = append(names, b.Account.Entity+" "+b.Account.Resource)
	}
	return names
}

// fill creates buckets with 59 of 60 tokens.
func (f *fixture) fill(keys ...limiter.Scope) {
	f.Helper()
	for _, k := range keys {
		c := ask(k.Entity, rpm(1))
		c.Resource = k.Resource
		f.take(0, c)
	}
}

// listing has keys in no order.
var listing = []limiter.Scope{
	{Entity: "b", Resource: "x"},
	{Entity: "a", Resource: "y"},
	{Entity: "b", Resource: "y"},
	{Entity: "a", Resource: "x"},
	{Entity: "a", Resource: "x/1"},
	{Entity: "B", Resource: "x"},
	{Entity: "a-1", Resource: "x"},
	{Entity: "a.1", Resource: "z"},
	{Entity: "ab", Resource: "x"},
	{Entity: "c", Resource: "x"},
	{Entity: "1", Resource: "x"},
}

// inOrder returns the names of keys with a prefix, by entity, then resource.
func inOrder(prefix string, keys ...limiter.Scope) (names []string) {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b limiter.Scope) int {
		return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource))
	})

	for _, k := range keys {
		if strings.HasPrefix(k.Entity, prefix) {
			names = append(names, k.Entity+" "+k.Resource)
		}
	}
	return names
}

func pagesOfAnySize(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.equal("an empty store", f.page(limiter.BucketQuery{}), limiter.BucketPage{})

	f.fill(listing...)
	// A size of 0 stands for the default.
	for size := range len(listing) + 2 {
		f.equal(fmt.Sprintf("pages of %d", size), namesOf(f.pages(0, limiter.BucketQuery{Max: size})),
			inOrder("", listing...))
	}

	_, err := f.pager().BucketPage(f.ctx, epoch, limiter.BucketQuery{Max: -1})
	f.invalid("a negative maximum", err)
}

func pagesByPrefix(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.fill(listing...)

	for _, prefix := range []string{"a", "a-", "a.1", "ab", "abc", "b", "B", "0", "1", "z", "~"} {
		for _, size := range []int{1, 2, 0} {
			got := f.pages(0, limiter.BucketQuery{Prefix: prefix, Max: size})
			f.equal(fmt.Sprintf("prefix %q in pages of %d", prefix, size), namesOf(got), inOrder(prefix, listing...))
		}
	}
}

// pagesByBytes uses names that no limiter accepts, but other programs may store.
func pagesByBytes(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	var keys []limiter.Scope
	for _, entity := range []string{
		"z", "Z", "é", "e\u0301", "ﬁ", "\U0001F600", "\uFFFD", "日本", "<script>", `"'\`, "a#b", "a/b", "a b",
		"%", "_", "~",
	} {
		keys = append(keys, limiter.Scope{Entity: entity, Resource: "x"}, limiter.Scope{Entity: entity, Resource: "ß"})
	}

	f.fill(keys...)

	for _, size := range []int{1, 3, 0} {
		f.equal("all", namesOf(f.pages(0, limiter.BucketQuery{Max: size})), inOrder("", keys...))
	}

	for _, prefix := range []string{"é", "e", "a", "%", "_", "\U0001F600", "日", "\""} {
		f.equal("prefix "+prefix, namesOf(f.pages(0, limiter.BucketQuery{Prefix: prefix, Max: 2})),
			inOrder(prefix, keys...))
	}
}

func pagesOfLongNames(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	var keys []limiter.Scope
	for _, end := range []string{"a", "b", "c"} {
		keys = append(keys, limiter.Scope{Entity: strings.Repeat("e", 255) + end, Resource: strings.Repeat("r", 64)})
	}

	f.fill(keys...)
	f.equal("all", namesOf(f.pages(0, limiter.BucketQuery{Max: 1})), inOrder("", keys...))
	f.equal("one", namesOf(f.pages(0, limiter.BucketQuery{Max: 1, Prefix: keys[1].Entity})), inOrder("", keys[1]))
}

func pagesUnderChange(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	of := func(entities ...string) (keys []limiter.Scope) {
		for _, e := range entities {
			keys = append(keys, limiter.Scope{Entity: e, Resource: "x"}, limiter.Scope{Entity: e, Resource: "y"})
		}
		return keys
	}

	f.fill(of("b", "d", "f", "h")...)
	first := f.page(limiter.BucketQuery{Max: 3})

	// A store may return a short page.
	for len(first.Buckets) < 3 {
		more := f.page(limiter.BucketQuery{Max: 3 - len(first.Buckets), After: first.Next})
		more.Buckets = append(first.Buckets, more.Buckets...)
		first = more
	}

	f.equal("first page", namesOf(first.Buckets), []string{"b x", "b y", "d x"})
	// This deletes the bucket that the cursor names, d x, and the next one, d
	// y.
	f.deleteEntity("d")
	f.deleteEntity("f")
	f.fill(of("a", "c", "e", "g")...)

	rest := f.pages(0, limiter.BucketQuery{Max: 3, After: first.Next})
	f.equal("the pages that follow", namesOf(rest), inOrder("", of("e", "g", "h")...))
}

func pagesWithBadCursors(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.fill(listing...)

	next := f.page(limiter.BucketQuery{Max: 1}).Next

	for _, after := range []string{"a", "b x", next[:len(next)-1], next + "A", strings.ToUpper(next), "\xff"} {
		_, err := f.pager().BucketPage(f.ctx, epoch, limiter.BucketQuery{After: after})
		f.invalid(fmt.Sprintf("BucketPage after %q", after), err)
	}

	_, err := f.pager().BucketPage(f.ctx, epoch, limiter.BucketQuery{Prefix: strings.Repeat("a", 3000)})
	f.invalid("BucketPage of a long prefix", err)
}

func pagesWithoutExpired(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "stays", Resource: model}, perMinute60)

	for i := range 5 {
		f.take(0, ask(fmt.Sprint("goes-", i), rpm(1)))
	}
	f.take(0, ask("stays", rpm(1)))
	f.take(time.Hour, ask("young", rpm(1)))

	for _, size := range []int{1, 0} {
		f.equal("all", namesOf(f.pages(time.Hour, limiter.BucketQuery{Max: size})),
			[]string{"stays " + model, "young " + model})
	}

	at, err := f.pager().BucketsAt(f.ctx, at(time.Hour), []limiter.Scope{{Entity: "goes-1", Resource: model}})
	f.ok("BucketsAt", err)
	f.equal("an expired bucket", at, []limiter.Bucket{{}})
}

func pagesOfNamespace(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.fill(limiter.Scope{Entity: "a", Resource: "x"}, limiter.Scope{Entity: "c", Resource: "x"})

	_, other := f.namespace("other")
	other.setLimits(limiter.Scope{}, perMinute60)
	other.fill(limiter.Scope{Entity: "b", Resource: "x"})

	f.equal("here", namesOf(f.pages(0, limiter.BucketQuery{Max: 1})), []string{"a x", "c x"})
	f.equal("there", namesOf(other.pages(0, limiter.BucketQuery{Max: 1})), []string{"b x"})

	at, err := other.pager().BucketsAt(f.ctx, epoch, []limiter.Scope{{Entity: "a", Resource: "x"}})
	f.ok("BucketsAt", err)
	f.equal("a bucket of another namespace", at, []limiter.Bucket{{}})
}

func pagesWithinEntity(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "many"}, limiter.PerMinute("rpm", 600))

	keys := []limiter.Scope{{Entity: "a", Resource: "x"}, {Entity: "z", Resource: "x"}}
	for i := range 30 {
		keys = append(keys, limiter.Scope{Entity: "many", Resource: fmt.Sprint("r", i)})
	}

	f.fill(keys...)
	for _, size := range []int{1, 7, 31, 100} {
		all := f.pages(0, limiter.BucketQuery{Max: size})
		f.equal(fmt.Sprintf("pages of %d", size), namesOf(all), inOrder("", keys...))

		for _, b := range all {
			if want := b.Account.Entity == "many"; (b.Account.Limits[0].Capacity == 600) != want {
				f.Errorf("%s %s has %v", b.Account.Entity, b.Account.Resource, b.Account.Limits)
			}
		}
	}
}

func pagesOfMany(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	var keys []limiter.Scope
	for i := range 130 {
		keys = append(keys, limiter.Scope{Entity: fmt.Sprint("key-", i), Resource: model})
	}

	f.fill(keys...)
	f.equal("all", namesOf(f.pages(0, limiter.BucketQuery{})), inOrder("", keys...))
	f.equal("at once", namesOf(f.pages(0, limiter.BucketQuery{Max: 5000})), inOrder("", keys...))
	f.equal("a prefix", namesOf(f.pages(0, limiter.BucketQuery{Prefix: "key-9"})), inOrder("key-9", keys...))
}

// pagesAgree compares with Buckets after changes of every level.
func pagesAgree(f *fixture) {
	f.populate()
	f.fill(limiter.Scope{Entity: "project-1", Resource: "other"}, limiter.Scope{Entity: "key-9", Resource: model},
		limiter.Scope{Entity: "key-1", Resource: "other"})

	steps := []func(){
		func() {},
		func() {
			f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, limiter.PerMinute("rpm", 30),
				limiter.PerMinute("tpm", 10))
		},
		func() { f.setDefaults(limiter.PerMinute("rpm", 600)) },
		func() { f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("tpm", 7)) },
		func() { f.deleteConfig(limiter.Scope{Entity: "key-1", Resource: model}) },
		func() { f.setLimits(limiter.Scope{}, limiter.PerMinute("rpm", 61)) },
		func() { f.deleteConfig(limiter.Scope{Resource: model}) },
	}
	for i, change := range steps {
		change()

		now := time.Duration(i) * time.Second
		want := collect(f, "Buckets", f.repo.Buckets(f.ctx, at(now), limiter.Scope{}))

		var keys []limiter.Scope
		// Buckets lists by resource first, and pages by entity.
		slices.SortFunc(want, func(a, b limiter.Bucket) int {
			return cmp.Or(strings.Compare(a.Account.Entity, b.Account.Entity),
				strings.Compare(a.Account.Resource, b.Account.Resource))
		})

		for _, b := range want {
			keys = append(keys, limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource})
		}

		f.equal(fmt.Sprintf("pages after %d changes", i), f.pages(now, limiter.BucketQuery{Max: 2}), want)
		found, err := f.pager().BucketsAt(f.ctx, at(now), keys)
		f.ok("BucketsAt", err)
		f.equal(fmt.Sprintf("by key after %d changes", i), found, want)
	}
}

func bucketsByKey(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.fill(listing...)

	keys := []limiter.Scope{
		{Entity: "c", Resource: "x"},
		{Entity: "a", Resource: "y"},
		{Entity: "missing", Resource: "x"},
		{Entity: "c", Resource: "x"},
		{Entity: "a", Resource: "z"},
		{Entity: "a", Resource: "x"},
	}
	found, err := f.pager().BucketsAt(f.ctx, at(500*time.Millisecond), keys)
	f.ok("BucketsAt", err)

	var names []string
	for _, b := range found {
		if b.Account == nil {
			names = append(names, "")
			continue
		}

		names = append(names, b.Account.Entity+" "+b.Account.Resource)
		f.equal("balance", b.Tokens, []int64{59_500})
	}

	f.equal("names", names, []string{"c x", "a y", "", "c x", "", "a x"})

	clear(found[0].Tokens)
	f.equal("a key that repeats", found[3].Tokens, []int64{59_500})

	// Keys that a store cannot hold are missing buckets, and no error.
	impossible := []limiter.Scope{
		{Entity: strings.Repeat("a", 3000), Resource: "x"},
		{Entity: "a", Resource: strings.Repeat("x", 3000)},
		{Entity: "a"},
		{Resource: "x"},
	}
	found, err = f.pager().BucketsAt(f.ctx, epoch, impossible)
	f.ok("BucketsAt of keys that cannot exist", err)
	f.equal("keys that cannot exist", found, make([]limiter.Bucket, len(impossible)))

	none, err := f.pager().BucketsAt(f.ctx, epoch, nil)
	f.ok("BucketsAt of nothing", err)
	f.equal("nothing", len(none), 0)
}

// pagesUpdated checks that Updated is at most the fill time of the fastest limit
// before the last charge.
func pagesUpdated(f *fixture) {
	f.setDefaults(perMinute60)
	for _, d := range []time.Duration{ms(1500), 90 * time.Second, 300 * time.Second} {
		out := f.take(d, ask("key-1", rpm(1)))
		f.equal("Updated of an outcome", out.Payers[0].Updated, int64(0))

		found, err := f.pager().BucketsAt(f.ctx, at(d+time.Second), []limiter.Scope{{Entity: "key-1", Resource: model}})
		f.ok("BucketsAt", err)

		for what, b := range map[string]limiter.Bucket{
			"BucketsAt": found[0],
			"Page":      first(f, "BucketPage", f.pages(d+time.Second, limiter.BucketQuery{})),
			"Buckets":   first(f, "Buckets", f.buckets(d+time.Second, limiter.Scope{Entity: "key-1"})),
		} {
			if before := at(d).Sub(time.UnixMilli(b.Updated)); before < 0 || before >= time.Minute {
				f.Errorf("%s: updated at %v, %v before the charge", what, b.Updated, before)
			}
		}
	}
}

func pagesAreCopies(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)
	clear(f.page(limiter.BucketQuery{}).Buckets[0].Tokens)
	f.holds(0, "key-1", 59_000)
}
