package loadtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// fixtures reads the scenario files in a folder of testdata: valid, invalid, or
// beyond (invalid in a way that a schema cannot express).
func fixtures(tb testing.TB, folder string) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"*.yaml", "*.json"} {
		names, err := filepath.Glob(filepath.Join("testdata", folder, pattern))
		if err != nil {
			tb.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				tb.Fatal(err)
			}
			files[filepath.Base(name)] = data
		}
	}
	if len(files) == 0 {
		tb.Fatalf("there is nothing in %s", folder)
	}
	return files
}

func TestEveryProblemNamesItsLine(t *testing.T) {
	for _, folder := range []string{"invalid", "beyond"} {
		for name, data := range fixtures(t, folder) {
			t.Run(name, func(t *testing.T) {
				_, err := loadtest.Parse(name, data)
				bad, ok := errors.AsType[*loadtest.FileError](err)
				if !ok {
					t.Fatalf("the error is %v", err)
				}
				golden.Check(t,
					filepath.Join("testdata", folder, strings.TrimSuffix(name, filepath.Ext(name))+".txt"),
					bad.Error()+"\n")
			})
		}
	}
}

func TestParseReadsAScenario(t *testing.T) {
	s, err := loadtest.Parse("chat.yaml", fixtures(t, "valid")["chat.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	type task struct {
		Name   string
		Weight int
	}
	type class struct {
		Name   string
		Weight int
		Wait   loadtest.Wait
		Tasks  []task
	}
	var classes []class
	for _, c := range s.Classes {
		read := class{Name: c.Name, Weight: c.Weight, Wait: c.Wait}
		for _, t := range c.Tasks {
			read.Tasks = append(read.Tasks, task{t.Name, t.Weight})
		}
		classes = append(classes, read)
	}
	want := []class{
		{
			"ChatUser", 3,
			loadtest.Wait{Min: 500 * time.Millisecond, Max: 2 * time.Second},
			[]task{{"chat", 15}, {"look", 1}},
		},
		{"BatchUser", 1, loadtest.Wait{}, []task{{"call", 1}, {"plan", 1}}},
	}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	shapes := []loadtest.Shape{{Name: "Morning", Stages: []loadtest.Stage{
		{Duration: 10 * time.Minute, Users: 50, SpawnRate: 2},
		{Duration: 90 * time.Minute, Users: 150, SpawnRate: 0.5},
		{Duration: 10 * time.Minute, Users: 0, SpawnRate: 10},
	}}}
	if diff := cmp.Diff(shapes, s.Shapes); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	if s.Name != "chat" || s.Description != "Keys of one project call two models." {
		t.Errorf("the scenario is %q, %q", s.Name, s.Description)
	}
}

func TestFileNamesItsScenario(t *testing.T) {
	s, err := loadtest.Load(filepath.Join("testdata", "valid", "least.yaml"))
	if err != nil || s.Name != "least" {
		t.Errorf("the scenario is %q, error %v", s.Name, err)
	}
	if _, err := loadtest.Load("missing.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	data := fixtures(t, "valid")["least.yaml"]
	if _, err := loadtest.Parse("1 2.yaml", data); err == nil || !strings.Contains(
		err.Error(), `its file is called "1 2"; add the key name`,
	) {
		t.Errorf("a file without a usable name: %v", err)
	}
}

func TestAliasesCannotMakeAFileLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("system: {limits: {rpm: 1}}\nclasses:\n  C0:\n    tasks: &all\n")
	for i := range 1000 {
		b.WriteString(
			"      t" + strings.Repeat("x", i%60) + string(rune('a'+i/60)) + ": {acquire: api, consume: {rpm: 1}}\n",
		)
	}
	for i := range 1000 {
		b.WriteString("  K" + strings.Repeat("x", i%60) + string(rune('a'+i/60)) + ": {tasks: *all}\n")
	}
	_, err := loadtest.Parse("large.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "at most 20000 keys and items") {
		t.Errorf("%.200v", err)
	}
	_, err = loadtest.Parse("large.yaml", make([]byte, 1<<20+1))
	if err == nil || !strings.Contains(err.Error(), "a scenario has at most 1048576") {
		t.Errorf("%.200v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, folder := range []string{"valid", "invalid", "beyond"} {
		for _, data := range fixtures(f, folder) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := loadtest.Parse("fuzz.yaml", data)
		bad, isFileError := errors.AsType[*loadtest.FileError](err)
		switch {
		case err == nil && (s.Name == "" || len(s.Classes) == 0):
			t.Errorf("the scenario has no name or no classes: %+v", s)
		case err != nil && (!isFileError || len(bad.Problems) == 0):
			t.Errorf("the error has no problems: %v", err)
		}
	})
}
