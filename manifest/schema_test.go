package manifest_test

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

	"github.com/zeroae/zae-limiter-go/manifest"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(manifest.Schema()))
	check(t, err)
	c := jsonschema.NewCompiler()
	check(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	check(t, err)
	return s
}

func TestSchemaAndParseAgree(t *testing.T) {
	s := compiledSchema(t)
	for folder, valid := range map[string]bool{"valid": true, "invalid": false} {
		for name, data := range fixtures(t, folder) {
			if err := s.Validate(decodeAsEditor(t, data)); (err == nil) != valid {
				t.Errorf("%s/%s: the schema says %v", folder, name, err)
			}
			if _, err := manifest.Parse(data); (err == nil) != valid {
				t.Errorf("%s/%s: Parse says %v", folder, name, err)
			}
		}
	}
}

// decodeAsEditor decodes a file as an editor does for a schema: keys are text.
func decodeAsEditor(t *testing.T, data []byte) any {
	t.Helper()
	var doc yaml.Node
	check(t, yaml.Unmarshal(data, &doc))
	if doc.Kind == 0 {
		return nil
	}
	text, err := json.Marshal(nodeValue(t, doc.Content[0]))
	check(t, err)
	return decodeJSON(t, text)
}

// decodeJSON decodes JSON as the schema expects it: numbers keep all their
// digits.
func decodeJSON(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	check(t, err)
	return value
}

func nodeValue(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.AliasNode:
		return nodeValue(t, n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = nodeValue(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		return []any{}
	}
	if n.ShortTag() == "!!int" {
		return json.Number(n.Value)
	}
	var v any
	check(t, n.Decode(&v))
	return v
}

// TestSchemaAndParseAgreeOnWhatIsAlmostRight changes valid manifests in one
// random place.
func TestSchemaAndParseAgreeOnWhatIsAlmostRight(t *testing.T) {
	s := compiledSchema(t)
	files := fixtures(t, "valid")
	delete(files, "many.yaml") // long, and otherwise like the others
	rng := rand.New(rand.NewPCG(1, 2))
	mutated, refused := 0, 0
	for range 300 {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			value := decodeAsEditor(t, files[name])
			mutate(rng, value)
			err := s.Validate(value)
			_, parseErr := manifest.FromValue(value)
			if (err == nil) != (parseErr == nil) {
				text, _ := json.Marshal(value)
				t.Fatalf("%s\nthe schema says %v\nthe package says %v", text, err, parseErr)
			}
			if mutated++; err != nil {
				refused++
			}
		}
	}
	if refused < mutated/4 || refused > mutated*9/10 {
		t.Errorf("%d of %d were refused, so that this says little", refused, mutated)
	}
}

// mutate changes one random pair in a tree: it deletes, renames, replaces or
// adds.
func mutate(rng *rand.Rand, value any) {
	m, _ := value.(map[string]any)
	if m == nil {
		return
	}
	key := ""
	for keys := slices.Sorted(maps.Keys(m)); len(keys) > 0; keys = slices.Sorted(maps.Keys(m)) {
		key = keys[rng.IntN(len(keys))]
		inner, ok := m[key].(map[string]any)
		if !ok || rng.IntN(4) == 0 {
			break
		}
		m = inner
	}
	word, v := oddWords[rng.IntN(len(oddWords))], oddValues[rng.IntN(len(oddValues))]
	switch rng.IntN(5) {
	case 0:
		delete(m, key)
	case 1, 2:
		old := m[key]
		delete(m, key)
		m[word] = old
	case 3:
		m[key] = v
	default:
		m[word] = v
	}
}

var oddWords = []string{
	"namespace", "system", "resources", "entities", "limits", "on_unavailable", "capacity", "burst",
	"refill_amount", "refill_period",
	"_default_", "gpt-4", "rpm", "a.b", "n-1", "a#b", "PK", "ttl", "", "1", strings.Repeat("x", 65),
	"key@example.com", "a/b", "GSI1SK", "spend", "spend_daily", "spending", "é", "a\n", "_", "window", "zone", "shadow",
}

var oddValues = []any{
	nil, true, "allow", "text", "", json.Number("1"), json.Number("7"), json.Number("0"), json.Number("-3"),
	json.Number("1.5"),
	json.Number("9223372036"), json.Number("9223372037"), json.Number("9223372036854775"),
	json.Number("9223372036854776"),
	[]any{},
	map[string]any{},
	map[string]any{"capacity": json.Number("5")},
	map[string]any{"limits": map[string]any{}},
	"tenant-b", "_",
	"100", "100/min", "100/min:150", "9/5hour:within", "10000/min:within=2000", "100:150", "12:30:45", "0/min",
	"01/min", "+1/min", "1/week",
	"month", "hour", "day", "UTC", "Europe/Berlin", "berlin", "5@month", "5@day:Europe/Berlin", "5@hour:UTC",
	"5@hour:Europe/Berlin", "5@month:shadow", "5/min:shadow",
	"5:shadow", "5@", "5@min", "5@day:", "5@day:shadow:UTC", "5:shadow:5", "5/min:shadow:5", ":shadow", "shadow",
	false, "true",
	map[string]any{"capacity": json.Number("5"), "window": "day", "zone": "Europe/Berlin", "shadow": true},
	map[string]any{"capacity": json.Number("5"), "window": "hour", "zone": "UTC"},
	"10k", "1.5M", "2G/hour", "10k/min:15k", "10k/min:within=2k", "1M@month", "0.5M", "1.5", "1.2345k", "10K",
	"1.5K/min:2K", "1m", "2T", "2t", "10,000", "k",
	"$50", "$50@month", "$0.25/day:$1", "$0.000001@day", "$0.00@month", "$0@month", "$1.5k@year", "$1.5K@year",
	"$1.5G@year", "$10G@year", "$1.0000001", "$", "$-5", "50$", "$05",
	map[string]any{"capacity": "$50", "window": "month"},
	map[string]any{"capacity": "10k", "burst": "1.5M"},
	"1/0min", "1/min:", "1/min:0", "1/min:within=", "1/min:within=0", "1/min:Within", "1/min:within=1=1", "1/min\n",
	" 1/min", "1 / min", "1/min:1:1",
}

func TestManifestOfTheDocsIsValid(t *testing.T) {
	page, err := os.ReadFile("../docs/limits.md")
	check(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if m := parse(t, text); !found || len(m.Levels) != 6 {
		t.Errorf("%+v", m)
	}
	check(t, compiledSchema(t).Validate(decodeAsEditor(t, []byte(text))))
}

func TestSchemaNamesItself(t *testing.T) {
	var s struct {
		ID string `json:"$id"`
	}
	check(t, json.Unmarshal([]byte(manifest.Schema()), &s))
	if !strings.HasSuffix(s.ID, "/manifest/schema.json") {
		t.Errorf("$id is %s", s.ID)
	}
}
