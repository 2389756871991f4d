package yamlfile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// decoder reads a file in which any of a few keys leads to a mapping of the same
// kind, to a text or to a boolean.
type decoder struct {
	yamlfile.Reader
	paths []string // of all sections that were read
	most  int      // sections to read; 0 for any number
}

// maxPath bounds the nesting of sections, which an alias makes endless.
const maxPath = 200

func decode(form yamlfile.Form, most int, data []byte) *decoder {
	d := &decoder{most: most}
	d.Form = form
	d.Full = func(yamlfile.Node) bool { return most > 0 && len(d.paths) >= most }
	if root, ok := d.Document(data); ok {
		d.section(root)
	}
	return d
}

func (d *decoder) section(n yamlfile.Node) {
	if len(n.Path) > maxPath {
		return
	}
	d.paths = append(d.paths, n.Path)
	d.Fields(n, yamlfile.Fields{
		"any": func(n yamlfile.Node) {
			d.Entries(n, func(key, n yamlfile.Node) { d.section(n) })
		},
		"section": d.section,
		"name":    func(n yamlfile.Node) { d.Text(n) },
		"old":     func(n yamlfile.Node) { d.Bool(n) },
	})
}

func (d *decoder) text() string {
	var lines []string
	for _, p := range d.Problems {
		lines = append(lines, fmt.Sprintf("%d:%d: %s: %s", p.Line, p.Column, p.Path, p.Text))
	}
	return strings.Join(lines, "\n")
}

// plain has no optional field, and full all of them.
var (
	plain = yamlfile.Form{Empty: "is empty", Second: "has another"}
	full  = yamlfile.Form{
		Empty: "is empty", Second: "has another", Anchors: true, Merge: "no merging", NullIsEmpty: true, Suggest: true,
		TextPrefix: "the text ", Clip: func(text string) string { return fmt.Sprintf("%.4s", text) },
	}
)

var problems = []struct{ file, plain, full string }{
	{"", "0:0: : is empty", "0:0: : is empty"},
	{"# nothing", "0:0: : is empty", "0:0: : is empty"},
	{"{}\n---\n{}", "2:1: : has another", "2:1: : has another"},
	{
		"{}\n---\n[", "3:0: : invalid YAML: did not find expected node content",
		"3:0: : invalid YAML: did not find expected node content",
	},
	{"{name: a}", "", ""},
	{"[]", "1:1: : must be a mapping, not a list", "1:1: : must be a mapping, not a list"},
	{"~", "1:1: : must be a mapping, not nothing", ""},
	{
		"names: a", `1:1: : there is no key "names" here; the keys are any, name, old, section`,
		`1:1: : there is no key "name" here; did you mean name?`,
	},
	{
		"other: a", `1:1: : there is no key "other" here; the keys are any, name, old, section`,
		`1:1: : there is no key "othe" here; the keys are any, name, old, section`,
	},
	{
		"{name: a, section: {}, name: b}", "1:24: name: duplicate key; the first one is in line 1",
		"1:24: name: duplicate key; the first one is in line 1",
	},
	{
		"section: {[a]: b}", "1:11: section: a key must be a word, not a list",
		"1:11: section: a key must be a word, not a list",
	},
	{"section: {<<: {name: a}}", "1:11: section: a key must be a word, not <<", "1:11: section: no merging"},
	{
		"section:\n  name: 12345", "2:9: section.name: must be text, not 12345; put it in quotes",
		"2:9: section.name: must be text, not 1234; put it in quotes",
	},
	{"name:", "1:6: name: must be text, not nothing", "1:6: name: must be text, not nothing"},
	{"name: {}", "1:7: name: must be text, not a mapping", "1:7: name: must be text, not a mapping"},
	{"old: True", "1:6: old: must be true or false, not True", "1:6: old: must be true or false, not True"},
	{"old: truly", `1:6: old: must be true or false, not "truly"`, `1:6: old: must be true or false, not the text "trul"`},
	{"any: {'a b': 1, é: 2, '': 3}", `1:14: any."a b": must be a mapping, not 1
1:20: any."é": must be a mapping, not 2
1:27: any."": must be a mapping, not 3`, `1:14: any."a b": must be a mapping, not 1
1:20: any."é": must be a mapping, not 2
1:27: any."": must be a mapping, not 3`},
	{"any:\n  a: &x {name: 5}\n  b: *x", `2:16: any.a.name: must be text, not 5; put it in quotes
2:16: any.b.name: must be text, not 5; put it in quotes`, `2:16: any.a.name: must be text, not 5; put it in quotes
2:16: any.b.name: must be text, not 5; put it in quotes`},
	{
		"# *x\nany: *xy", "0:0: : invalid YAML: unknown anchor 'xy' referenced",
		"2:6: : *xy refers to no anchor; define it with &xy",
	},
	{
		"# *x\n*x : {}", "0:0: : invalid YAML: unknown anchor 'x' referenced",
		"2:1: : *x refers to no anchor; define it with &x",
	},
	{
		"name: \"a # b\"\nany: {a: *x}", "0:0: : invalid YAML: unknown anchor 'x' referenced",
		"2:10: : *x refers to no anchor; define it with &x",
	},
}

func TestProblems(t *testing.T) {
	for _, test := range problems {
		if got := decode(plain, 0, []byte(test.file)).text(); got != test.plain {
			t.Errorf("%q, plain:\n%s\nwant\n%s", test.file, got, test.plain)
		}
		if got := decode(full, 0, []byte(test.file)).text(); got != test.full {
			t.Errorf("%q, full:\n%s\nwant\n%s", test.file, got, test.full)
		}
	}
}

func TestProblemsAsText(t *testing.T) {
	for want, p := range map[string]yamlfile.Problem{
		"line 3: a.b: is wrong": {Line: 3, Column: 7, Path: "a.b", Text: "is wrong"},
		"a.b: is wrong":         {Path: "a.b", Text: "is wrong"},
		"line 3: is wrong":      {Line: 3, Text: "is wrong"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Aliases of aliases must not make a small file large.
func TestAFileIsReadUntilItIsFull(t *testing.T) {
	text := "any:\n  a0: &a0 {name: x}\n"
	for i := range 40 {
		text += fmt.Sprintf("  a%d: &a%d {any: {l: *a%d, r: *a%d}}\n", i+1, i+1, i, i)
	}
	if d := decode(plain, 1000, []byte(text)); len(d.paths) != 1000 || len(d.Problems) > 0 {
		t.Errorf("%d values, %s", len(d.paths), d.text())
	}
}

// A value behind an alias has the position of the value, or that of the alias.
func TestUsedIsThePlaceOfTheAlias(t *testing.T) {
	var doc yaml.Node
	if _, err := yamlfile.Decode([]byte("a: &x 1\nb: *x\n"), &doc); err != nil {
		t.Fatal(err)
	}
	for e := range yamlfile.At(doc.Content[0], "").Entries() {
		if e.Value.Line != 1 || e.Value.Value != "1" || e.Value.Used().Line != e.Key.Line {
			t.Errorf("%s: %s in line %d, used in line %d", e.Key.Value, e.Value.Value, e.Value.Line, e.Value.Used().Line)
		}
	}
}

func TestScalars(t *testing.T) {
	for text, whole := range map[string]bool{
		"0": true, "7": true, "123456789012": true, "1234567890123": false, "-1": false, "+1": false, "01": false,
		"0x10": false, "1_000": false, "1e3": false, "1.0": false, "'7'": false, "[7]": false, "~": false,
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		n := yamlfile.At(doc.Content[0], "")
		if n.IsWhole() != whole || whole && !n.Is(yamlfile.Text, yamlfile.Int) {
			t.Errorf("%s is whole: %t", text, n.IsWhole())
		}
	}
}

func TestDecodeTakesOneStrictDocument(t *testing.T) {
	type file struct{ Name string }
	for _, test := range []struct {
		text, name, err string
		next            bool
	}{
		{text: ""},
		{text: "# nothing"},
		{text: "name: a", name: "a"},
		{text: "nam: a", err: "yaml: unmarshal errors:\n  line 1: field nam not found in type yamlfile_test.file"},
		{text: "name: a\n---\nname: b", name: "a", next: true},
		{text: "name: a\n---\n[", name: "a", next: true, err: "yaml: line 3: did not find expected node content"},
		{text: "[", err: "yaml: line 1: did not find expected node content"},
	} {
		var got file
		next, err := yamlfile.Decode([]byte(test.text), &got)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got.Name != test.name || text != test.err || (next != nil) != test.next {
			t.Errorf("%q: %q, %q, next %v", test.text, got.Name, text, next)
		}
	}
}

func TestNearestNamesWhatDiffersLittle(t *testing.T) {
	names := []string{"consume", "weight", "work"}
	for wanted, want := range map[string]string{
		"wieght": "weight", "consumes": "consume", "wrk": "work", "wort": "work", "acquire": "", "": "", "wx": "",
	} {
		if got := yamlfile.Nearest(wanted, names); got != want {
			t.Errorf("%q is near %q, want %q", wanted, got, want)
		}
	}
}

// A reader never panics. Each problem has a text, and a place in the file.
func FuzzReader(f *testing.F) {
	for _, test := range problems {
		f.Add([]byte(test.file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, form := range []yamlfile.Form{plain, full} {
			d := decode(form, 1000, data)
			if len(d.paths) == 0 && len(d.Problems) != 1 {
				t.Errorf("%d problems of a file without a document", len(d.Problems))
			}
			for _, p := range d.Problems {
				if p.Text == "" || p.Line < 0 || p.Line == 0 && p.Column != 0 || p.Line > len(data)+1 {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Contains(d.paths, "") && len(d.paths) > 0 {
				t.Errorf("the paths begin with %q", d.paths[0])
			}
		}
	})
}
