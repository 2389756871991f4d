package loadtest_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(loadtest.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaAndParseAgree(t *testing.T) {
	s := compiledSchema(t)
	for folder, valid := range map[string]bool{"valid": true, "invalid": false} {
		for name, data := range fixtures(t, folder) {
			if err := s.Validate(decodeAsEditor(t, data)); (err == nil) != valid {
				t.Errorf("%s/%s: the schema says %v", folder, name, err)
			}
			if _, err := loadtest.Parse(name, data); (err == nil) != valid {
				t.Errorf("%s/%s: Parse says %v", folder, name, err)
			}
		}
	}
}

// decodeAsEditor decodes a file as an editor does for a schema.
func decodeAsEditor(t *testing.T, data []byte) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSchemaAndParseAgreeOnWhatIsAlmostRight changes valid files in one random
// place. Parse knows a few rules that the schema cannot express.
func TestSchemaAndParseAgreeOnWhatIsAlmostRight(t *testing.T) {
	s := compiledSchema(t)
	files := fixtures(t, "valid")
	rng := rand.New(rand.NewPCG(1, 2))
	refused, mutated := 0, 0
	for range 200 {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			value := decodeAsEditor(t, files[name])
			mutate(rng, value)
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			bad := s.Validate(value)
			_, err = loadtest.Parse("file.yaml", text)
			if beyond := err != nil && onlyBeyond(err.Error()); (bad == nil) != (err == nil || beyond) {
				t.Fatalf("%s\nthe schema says %v\nParse says %v", text, bad, err)
			}
			if mutated++; bad != nil {
				refused++
			}
		}
	}
	if refused < mutated/4 || refused > mutated*9/10 {
		t.Errorf("%d of %d were refused, so that this says little", refused, mutated)
	}
}

// onlyBeyond reports whether all problems are of a kind that a schema cannot
// express.
func onlyBeyond(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return !slices.ContainsFunc([]string{
			"has no limits; add them", "has no limit ", "has no estimate", "begins above its end",
			"is the entity itself", "entities with a parent",
			`must be a duration above 0 such as 90s or 1h30m, not "0s"`,
		}, func(known string) bool { return strings.Contains(line, known) })
	})
}

// mutate changes one random place in a tree: it deletes, renames, replaces or
// adds.
func mutate(rng *rand.Rand, value any) {
	m, _ := value.(map[string]any)
	key := ""
	for keys := slices.Sorted(maps.Keys(m)); len(keys) > 0; keys = slices.Sorted(maps.Keys(m)) {
		key = keys[rng.IntN(len(keys))]
		inner, ok := m[key].(map[string]any)
		if list, isList := m[key].([]any); isList && len(list) > 0 {
			inner, ok = list[rng.IntN(len(list))].(map[string]any)
		}
		if !ok || rng.IntN(6) == 0 {
			break
		}
		m = inner
	}
	word, v := oddWords[rng.IntN(len(oddWords))], oddValues[rng.IntN(len(oddValues))]
	switch rng.IntN(6) {
	case 0:
		delete(m, key)
	case 1:
		old := m[key]
		delete(m, key)
		m[word] = old
	case 2, 3:
		m[key] = v
	default:
		m[word] = v
	}
}

var oddWords = []string{
	"name", "description", "system", "resources", "entities", "classes", "shapes", "limits", "weight", "wait",
	"entity", "parent", "cascade",
	"tasks", "acquire", "available", "time_until_available", "consume", "used", "work", "duration", "users",
	"spawn_rate", "count", "zipf",
	"_default_", "gpt-4", "rpm", "rps", "a.b", "a#b", "PK", "ttl", "", "1", strings.Repeat("x", 65), "a/b", "é",
	"class", "Other", "None",
}

var oddValues = []any{
	nil, true, false, "own", "shared", "text", "", "gpt-4", "api", "org", "a#b", json.Number("0"), json.Number("1"),
	json.Number("7"),
	json.Number("-3"), json.Number("1.5"), json.Number("10.5"), json.Number("1000000"), json.Number("1000001"),
	json.Number("999999999999"),
	json.Number("1000000000000"), json.Number("9223372036854775"), json.Number("9223372036854776"),
	[]any{},
	[]any{"gpt-4"},
	[]any{"gpt-4", "gpt-4"},
	[]any{map[string]any{"duration": "5s", "users": json.Number("3")}},
	[]any{json.Number("5")},
	map[string]any{},
	map[string]any{"rpm": json.Number("5")},
	map[string]any{"limits": map[string]any{"rpm": "5/min"}},
	map[string]any{"name": "x"},
	map[string]any{"count": json.Number("5")},
	map[string]any{"count": json.Number("5"), "zipf": json.Number("1.2")},
	map[string]any{"acquire": "api", "consume": map[string]any{"rpm": json.Number("1")}},
	map[string]any{"tasks": map[string]any{"t": map[string]any{"available": "api"}}},
	"0s", "5s", "1m30s", "5s..10s", "10s..5s", "-1s", "1d", "1s..", "200..2000", "5..1", "1..x", "01..2",
	"1000000000000..1", "100/min", "100/min:150", "10k/min:1.5M", "10K", "0.5M", "$5/day", "2G",
	"100:150", "100/week", "5/min:within", "two\nlines", "_x", "1st", strings.Repeat("y", 201),
}

func TestSchemaNamesItself(t *testing.T) {
	var s struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal([]byte(loadtest.Schema()), &s); err != nil ||
		!strings.HasSuffix(s.ID, "/loadtest/schema.json") {
		t.Errorf("$id is %s, error %v", s.ID, err)
	}
}

func TestScenarioOfTheDocsIsValid(t *testing.T) {
	page, err := os.ReadFile("../docs/loadtest.md")
	check(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	s, err := loadtest.Parse("chat.yaml", []byte(text))
	check(t, err)
	if !found || len(s.Classes) != 2 {
		t.Errorf("the scenario has %d classes", len(s.Classes))
	}
	check(t, compiledSchema(t).Validate(decodeAsEditor(t, []byte(text))))
}
