package locust

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestFile(t *testing.T) {
	s := loadtest.Scenario{
		Name:    "night",
		Classes: []loadtest.Class{{Name: "Walker"}, {Name: "Runner", Weight: 3}},
		Shapes: []loadtest.Shape{
			{Name: "Calm", Stages: []loadtest.Stage{{Duration: time.Minute, Users: 5, SpawnRate: 0.5}}},
			{
				Name: "Storm",
				Stages: []loadtest.Stage{{Duration: 1500 * time.Millisecond, Users: 50, SpawnRate: 10}, {
					Duration: time.Hour, Users: 5, SpawnRate: 1,
				}},
			},
		},
	}
	text, err := File(s, &FileOptions{Shape: "Storm", Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/night.py", string(text))
	s.Shapes = nil
	text, err = File(s, &FileOptions{Classes: []string{"Runner"}, Keep: true})
	if err != nil || strings.Contains(string(text), "class Walker") || strings.Contains(string(text), "class Stages") ||
		!strings.Contains(string(text), "KEEP = True") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestFileOfWrongNames(t *testing.T) {
	for want, test := range map[string]struct {
		s    loadtest.Scenario
		opts FileOptions
	}{
		`invalid class "Walker": scenario night has no such class`: {
			loadtest.Scenario{Name: "night"}, FileOptions{Classes: []string{"Walker"}},
		},
		`invalid shape "Storm": scenario night has no shapes`: {
			loadtest.Scenario{Name: "night"}, FileOptions{Shape: "Storm"},
		},
		`name "my user": must be the name of a class`: {
			loadtest.Scenario{Classes: []loadtest.Class{{Name: "my user"}}}, FileOptions{},
		},
		`name "None": has another meaning`: {
			loadtest.Scenario{Classes: []loadtest.Class{{Name: "None"}}}, FileOptions{},
		},
		`name "Test": has another meaning`: {
			loadtest.Scenario{Classes: []loadtest.Class{{Name: "Test"}}}, FileOptions{},
		},
		`name "Both": has another meaning`: {
			loadtest.Scenario{Classes: []loadtest.Class{{Name: "Both"}}, Shapes: []loadtest.Shape{{Name: "Both"}}},
			FileOptions{},
		},
	} {
		if text, err := File(test.s, &test.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s\n%s", err, want, text)
		}
	}
}
