package webtest

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "gpt-4", fixed("rpm", 100))
	s.use("key-1", "gpt-4", requestsOnly(10))
	s.use("key-2", "gpt-4", requestsOnly(10))
	b := newTab(t)
	b.visit(dashboard(t, s, "--write", "--principal", "ada@example.com"))

	b.follow("Changes")
	b.choose("Change", "Set limits")
	b.fill("Resource", "gpt-4\t")
	b.await("the limits in force", `() => control("input", "Capacity")?.value === "100"`)
	b.fill("Capacity", "250")
	b.press("Preview")
	b.await("the preview",
		`() => { const text = document.querySelector("main").innerText; return text.includes("2 buckets would get other limits") && text.includes("capacity 250") }`)
	b.keep("changes-preview")
	if got := s.defaults("gpt-4"); got != 100 {
		t.Errorf("the preview set the capacity to %d", got)
	}
	b.press("Set limits as ada@example.com")
	b.await("the note", `() => document.querySelector("main").innerText.includes("Set limits: done.")`)
	if got := s.defaults("gpt-4"); got != 250 {
		t.Errorf("the capacity is %d, want 250", got)
	}

	b.choose("Change", "Create entity")
	b.fill("ID", "key-3")
	b.fill("Display name", "Third key")
	b.fill("Metadata", "tier=gold")
	b.press("Preview")
	b.press("Create entity as ada@example.com")
	b.await("the note", `() => document.querySelector("main").innerText.includes("Create entity: done.")`)
	e, err := s.lim.Entity(t.Context(), "key-3")
	s.must(err)
	if e.Name != "Third key" || e.Metadata["tier"] != "gold" {
		t.Errorf("the entity is %+v", e)
	}

	b.choose("Change", "Delete limits")
	b.fill("Resource", "gpt-4\t")
	b.press("Preview")
	b.press("Delete limits as ada@example.com")
	b.await("the note", `() => document.querySelector("main").innerText.includes("Delete limits: done.")`)
	s.unchanged("gpt-4")
	got := []string{}
	for e, err := range s.lim.AuditEvents(t.Context(), "$RESOURCE:gpt-4", "") {
		s.must(err)
		got = append(got, e.Action+" by "+e.Principal)
	}
	if diff := cmp.Diff(
		[]string{"limits_deleted by ada@example.com", "limits_set by ada@example.com", "limits_set by webtest"},
		got,
	); diff != "" {
		t.Errorf("the audit trail (-want +got)\n%s", diff)
	}
}

// defaults returns the capacity of the limit of a resource.
func (s *store) defaults(resource string) int64 {
	s.t.Helper()
	limits, err := s.lim.ResourceDefaults(s.t.Context(), resource)
	s.must(err)
	if len(limits) != 1 {
		s.t.Fatalf("%s has the limits %v", resource, limits)
	}
	return limits[0].Capacity
}

// forge posts a change from the page, past its buttons, and returns the status.
const forge = `async () => (await fetch("api/change", { method: "POST", headers: { "Content-Type": "application/json" },
	body: JSON.stringify({ action: "set_limits", entity: "", resource: "gpt-4", limits: [{ name: "rpm", capacity: 666, refill_amount: 666, refill_period_seconds: 60 }] }) })).status`

// mayNotChange checks that neither the page nor a forged request changes anything.
func (b *tab) mayNotChange(s *store, hint string) {
	b.t.Helper()
	b.expect(`status of 403`)
	b.await("the views", `() => Boolean(control("nav a", "Explain"))`)
	if eval[bool](b, `() => Boolean(control("nav a", "Changes"))`) {
		b.t.Error("the page offers changes")
	}
	b.view("#/changes")
	b.await("why",
		`(hint) => document.querySelector("main").innerText.includes(hint) && !control("button", "Preview")`, hint)
	if status := eval[int](b, forge); status != http.StatusForbidden {
		b.t.Errorf("a forged change has status %d", status)
	}
	s.unchanged("gpt-4")
}

func TestChangesNeedWrite(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.mayNotChange(s, "--write")
}

// TestRoles signs in to serve with bearer tokens.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-1", "gpt-4", requestsOnly(10))
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	tokens := writeTokens(t, file, "acquire", "read", "admin")
	p := serve(t, s, "--tokens", file, "--dashboard-write")

	b := newTab(t)
	b.allow(p.host())
	b.expect(`status of 40[13]`)
	b.open(p.URL)
	b.fill("Token", tokens["acquire"]+"\r")
	b.await("that the role sees nothing", `() => all("[role=alert]").some((e) => e.innerText.includes("role"))`)
	b.fill("Token", tokens["read"]+"\r")
	b.awaitLive()
	b.await("the row", `() => limit("key-1", "gpt-4", "rpm")?.amount === "90 / 100"`)
	b.mayNotChange(s, "admin")
	b.press("Sign out")
	b.fill("Token", tokens["admin"]+"\r")
	b.awaitLive()
	b.view("#/changes")
	b.await("the form", `() => Boolean(control("button", "Preview"))`)
	if status := eval[int](b, forge); status != http.StatusOK {
		t.Errorf("a change of the admin has status %d", status)
	}

	// A token that is removed from the file ends its session.
	writeTokens(t, file, "read")
	b.await("the form for a token", `() => Boolean(control("input", "Token"))`)
}

// writeTokens writes a file with a new token for each role.
func writeTokens(t *testing.T, file string, roles ...string) map[string]string {
	t.Helper()
	content := "tokens:\n"
	tokens := map[string]string{}
	for _, role := range roles {
		c := command(t.Context(), t, "serve", "token", role+"-user", "--role", role)
		var stderr strings.Builder
		c.Stderr = &stderr
		entry, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		content += string(entry)
		tokens[role] = regexp.MustCompile(`zael_\S+`).FindString(stderr.String())
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return tokens
}
