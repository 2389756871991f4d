package webtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// hostile lists names that a page must show as text.
var hostile = []string{
	`<script>alert(1)</script>`,
	`<img src=x onerror=alert(1)>`,
	`"quoted" & 'single' </title>`,
	"\u202eright-to-left override", // the page must not turn around what follows
	"שלום עולם مرحبا",
	"{{7*7}} ${7*7} javascript:alert(1)",
	strings.Repeat("w", 256),
}

// newHostile returns a store in which every name that people choose is hostile,
// and every ID that the limiter accepts is as long as it may be. IDs that the
// limiter would refuse come from another writer of the store.
func newHostile(t *testing.T) (s *store, longID string) {
	t.Helper()
	s = newStore(t)
	longID = strings.Repeat("x", 256)
	s.limits("", "", fixed("rpm", 100))
	s.limits("", strings.Repeat("r", 64), fixed(strings.Repeat("l", 64), 100))
	for i, name := range hostile {
		id := fmt.Sprintf("key-%d", i)
		s.entity(limiter.Entity{
			ID: id, Name: name, Parent: longID, Cascade: true, Metadata: map[string]string{name: name},
		})
		s.limits(id, "", fixed("rpm", 100))
		s.use(id, "gpt-4", requestsOnly(90))
	}
	s.use(longID, strings.Repeat("r", 64), limiter.Tokens(strings.Repeat("l", 64), 99))
	return s, longID
}

// exec runs SQL on the file of a store, for what the limiter itself would refuse.
func (s *store) exec(query string, args ...any) {
	s.t.Helper()
	db, err := sql.Open("sqlite", s.path)
	s.must(err)
	defer db.Close()
	_, err = db.ExecContext(s.t.Context(), query, args...)
	s.must(err)
}

// shows checks that a text is on the page as one text node or value, and that no
// markup was made of it.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("the text %.40q", text), `(text) => {
		const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
		for (let n = walker.nextNode(); n; n = walker.nextNode()) if (n.data.includes(text)) return true;
		return all("input, textarea").some((e) => e.value.includes(text));
	}`, text)
}

// inert checks that no name became markup or changed the page around it.
func (b *tab) inert() {
	b.t.Helper()
	found := eval[[]string](b,
		`() => [...document.querySelectorAll("main script, main img, main [onerror]")].map((e) => e.outerHTML)`)
	if len(found) > 0 {
		b.t.Errorf("names became markup: %q", found)
	}
	if wide := eval[string](b, `() => overflow()`); wide != "" {
		b.t.Errorf("names make the page too wide by %s", wide)
	}
	if bare := eval[[]string](b, `() => {
		const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		const found = [];
		for (let n = walker.nextNode(); n; n = walker.nextNode()) {
			if (/[\u202a-\u202e\u0590-\u06ff]/.test(n.data) && !n.parentElement.closest("bdi, [dir=auto], option, input, textarea")) found.push(n.parentElement.outerHTML.slice(0, 200));
		}
		return found;
	}`); len(bare) > 0 {
		b.t.Errorf("names are not isolated from the direction of the text around them: %q", bare)
	}
}

// TestNames shows hostile names in every view, on a desktop and on a phone.
func TestNames(t *testing.T) {
	t.Parallel()
	s, longID := newHostile(t)
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	checks := []struct {
		name, fragment string
		texts          []string
	}{
		{"overview", "#/", append(hostile, longID, strings.Repeat("r", 64), strings.Repeat("l", 64))},
		{"tree", "#/?order=name", append(hostile, longID, strings.Repeat("r", 64), strings.Repeat("l", 64))},
		{"resource", "#/resource?name=gpt-4", append(hostile, longID)},
		{"children", "#/entity?id=" + longID, append(hostile, longID)},
		{
			"explain",
			"#/explain?entity=" + longID + "&resource=" + strings.Repeat("r", 64) + "&consume=" +
				strings.Repeat("l", 64) + "%3A5",
			[]string{longID, strings.Repeat("l", 64)},
		},
		{
			"what-if", "#/what-if?entity=" + longID + "&resource=" + strings.Repeat("r", 64),
			[]string{longID, strings.Repeat("l", 64)},
		},
		{
			"changes", "#/changes?action=set_limits&entity=" + longID + "&resource=" + strings.Repeat("r", 64),
			[]string{longID, strings.Repeat("l", 64)},
		},
	}
	for i, name := range hostile {
		checks = append(checks, struct {
			name, fragment string
			texts          []string
		}{fmt.Sprintf("entity %d", i), fmt.Sprintf("#/entity?id=key-%d", i), []string{name}})
	}
	for _, width := range []int64{1280, 360} {
		b.resize(width, 2400)
		for _, check := range checks {
			t.Run(fmt.Sprintf("%s at %d px", check.name, width), func(t *testing.T) {
				b.in(t)
				b.view(check.fragment)
				for _, text := range check.texts {
					b.shows(text)
				}
				b.inert()
				if check.name != "entity 0" || width == 1280 {
					b.keep(fmt.Sprintf("names-%s-%d", strings.ReplaceAll(check.name, " ", "-"), width))
				}
			})
		}
	}
}

// TestForeignIDs shows IDs that the limiter itself would refuse, as another
// program could have written them.
func TestForeignIDs(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	for i, name := range hostile {
		id := fmt.Sprintf("key-%d", i)
		s.use(id, "gpt-4", requestsOnly(90))
		s.exec(`UPDATE buckets_v7 SET entity = ?, resource = ? WHERE entity = ?`, name, name, id)
	}
	b := newTab(t)
	b.expect(`status of 4`)
	b.visit(dashboard(t, s))
	for _, name := range hostile {
		b.shows(name)
	}
	b.inert()
	b.press("By name")
	b.await("the tree", `(n) => all("[data-resource]").length === n && all("[aria-expanded]").length === n`,
		len(hostile))
	b.inert()
	for _, name := range hostile {
		b.view("#/entity?" + query("id", name))
		b.shows(name) // its data, or a sentence that refuses it
		b.inert()
	}
	b.view("#/?" + query("search", hostile[0]+"nothing"))
	b.shows(hostile[0] + "nothing")
	b.inert()
}

// query returns a parameter of a fragment.
func query(name, value string) string { return url.Values{name: {value}}.Encode() }
