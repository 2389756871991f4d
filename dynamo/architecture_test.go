package dynamo

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// TestArchitectureListsTheKeys compares the tables in docs/architecture.md with
// the functions that build the keys.
func TestArchitectureListsTheKeys(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	const ns, entity, resource = "{ns}", "{entity}", "{resource}"
	records := map[string]key{
		"entity":                                metaKey(ns, entity),
		"bucket":                                bucketKey(ns, entity, resource),
		"limits of an entity":                   configKey(ns, entity, resource),
		"limits of an entity for all resources": configKey(ns, entity, ""),
		"limits of a resource":                  configKey(ns, "", resource),
		"limits of the system":                  configKey(ns, "", ""),
		"snapshot of an hour":                   usageKey(ns, entity, resource, limiter.Hourly, "{start}"),
		"snapshot of a day":                     usageKey(ns, entity, resource, limiter.Daily, "{start}"),
		"what shadow limits would have refused in a day": usageKey(ns, entity, resource, limiter.Daily,
			"{start}").shadowKey(),
		"switches of an entity":             switchKey(ns, entity),
		"switches of the namespace":         switchKey(ns, ""),
		"ID of a top-up":                    topUpKey(ns, entity, resource, "{id}"),
		"audit event":                       auditKey(ns, entity, "{id}"),
		"resources with limits":             resourcesKey(ns),
		"resources with limits of entities": entityConfigsKey(ns),
		"what a manifest manages":           managedKey(ns),
		"version of the schema":             versionKey(),
		"namespace by name":                 namespaceKey("{name}"),
		"namespace by ID":                   namespaceIDKey(ns),
		"position in the stream":            shardKey("{label}", "{shard}"),
		"version before namespaces":         legacyVersionKey(),
	}
	for record, k := range records {
		if row := fmt.Sprintf("| %s | %#q | %#q |", record, k.pk, k.sk); !strings.Contains(string(text), row) {
			t.Errorf("docs/architecture.md lacks %s", row)
		}
	}
	for index, row := range map[string]string{
		indexChildren: fmt.Sprintf("%#q | %#q |", parentPK(ns, "{parent}"), childGSIPrefix+entity),
		indexResource: fmt.Sprintf("%#q | %#q, %#q |", resourcePK(ns, resource), bucketGSIPrefix+entity,
			usageGSIPrefix+"{start}#"+entity),
		indexConfigs:   fmt.Sprintf("%#q, %#q | %#q |", configsPK(ns, resource), switchesPK(ns), entity),
		indexNamespace: fmt.Sprintf("%#q | the item's PK |", ns),
	} {
		if row = fmt.Sprintf("| %s | %s", index, row); !strings.Contains(string(text), row) {
			t.Errorf("docs/architecture.md lacks %s", row)
		}
	}
	// A new kind of key needs a row.
	schema, err := os.ReadFile("schema.go")
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile(`(?m)^func \w+Key\(`).FindAll(schema, -1)
	const more = 6 // four more levels, one more window, and shadow limits
	if len(functions)+more != len(records) {
		t.Errorf("schema.go has %d functions of keys, and docs/architecture.md %d records", len(functions),
			len(records))
	}
}

var fileName = regexp.MustCompile(`\b[a-z_]+\.go\b`)

// TestArchitectureListsTheFilesOfACharge compares the files of a call in
// docs/architecture.md with the opening comment of consume.go.
func TestArchitectureListsTheFilesOfACharge(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, ok := strings.Cut(string(page), "Files, in the order of a call: ")
	listed, _, _ = strings.Cut(listed, "\n\n")
	source, err := os.ReadFile("consume.go")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, found := strings.Cut(string(source), "The way to the table is ")
	comment, _, _ = strings.Cut(comment, "\n\n")
	if !ok || !found {
		t.Fatal("the paragraph of the page or the comment of consume.go is gone")
	}
	for _, name := range fileName.FindAllString(comment, -1) {
		if !strings.Contains(listed, "`"+name+"`") {
			t.Errorf("docs/architecture.md lacks %s", name)
		}
	}
	for _, name := range fileName.FindAllString(listed+comment, -1) {
		_, here := os.Stat(name)
		if _, root := os.Stat("../" + name); here != nil && root != nil {
			t.Errorf("there is no file %s", name)
		}
	}
}
