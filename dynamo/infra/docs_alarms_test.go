package infra_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// runbookURL is where alarms point to.
const runbookURL = "https://github.com/zeroae/zae-limiter-go/blob/main/docs/operate/runbooks/"

// namedAlarm is an alarm of a template whose stack is my-app.
type namedAlarm struct {
	name, runbook string
	properties    fakeaws.Tree
}

// alarmsOf returns the alarms of a template, by name.
func alarmsOf(t *testing.T, text []byte, stack string) (all []namedAlarm) {
	t.Helper()
	s := fakeaws.NewTemplate(fakeaws.ParseTemplate(t, text), stack,
		map[string]string{"CodeBucket": "code", "CodeKey": "key"})
	made := s.Resources()
	for _, id := range slices.Sorted(maps.Keys(made)) {
		if s.Type(id) != "AWS::CloudWatch::Alarm" {
			continue
		}
		name := fakeaws.Text(made[id], "AlarmName")
		page := "alarm-" + strings.TrimSuffix(strings.TrimPrefix(name, stack+"-"), "-alarm") + ".md"
		all = append(all, namedAlarm{name, page, made[id]})
	}
	slices.SortFunc(all, func(a, b namedAlarm) int { return strings.Compare(a.name, b.name) })
	return all
}

func allAlarms(t *testing.T) []namedAlarm {
	t.Helper()
	return slices.Concat(alarmsOf(t, infra.Template(), "my-app"), alarmsOf(t, infra.LoadTemplate(), "my-app-load"))
}

// runbookSections are the sections of every runbook, in this order.
var runbookSections = []string{"## Symptom\n", "## Diagnosis\n", "## Remedy\n", "## Verification\n", "## Where next\n"}

// Every alarm names its runbook, and every runbook of an alarm names that alarm.
func TestAlarmsHaveRunbooks(t *testing.T) {
	index := readPage(t, filepath.Join(operatorGuide, "runbooks", "README.md"))
	unused := runbooks(t)
	for _, a := range allAlarms(t) {
		if description := fakeaws.Text(a.properties, "AlarmDescription"); !strings.HasSuffix(
			description, "Runbook: "+runbookURL+a.runbook,
		) {
			t.Errorf("the description of %s does not end with its runbook %s: %s", a.name, a.runbook, description)
		}
		if _, ok := unused[a.runbook]; !ok {
			t.Errorf("%s has no runbook %s", a.name, a.runbook)
			continue
		}
		if !strings.Contains(unused[a.runbook], "`"+a.name+"`") {
			t.Errorf("%s does not name its alarm %s", a.runbook, a.name)
		}
		if !strings.Contains(index, "`"+a.name+"`") {
			t.Errorf("the index of runbooks does not name %s", a.name)
		}
		delete(unused, a.runbook)
	}
	for page := range unused {
		if strings.HasPrefix(page, "alarm-") {
			t.Errorf("%s is about no alarm", page)
		}
	}
}

// Every runbook has the same sections, and the index links to it.
func TestRunbooksAreComplete(t *testing.T) {
	index := readPage(t, filepath.Join(operatorGuide, "runbooks", "README.md"))
	for page, text := range runbooks(t) {
		if !strings.Contains(index, "("+page+")") {
			t.Errorf("the index of runbooks does not link to %s", page)
		}
		for _, section := range runbookSections {
			_, rest, found := strings.Cut(text, section)
			if !found {
				t.Errorf("%s has no section %q after the ones before it", page, strings.TrimSpace(section))
				break
			}
			text = rest
		}
	}
}

// runbooks returns the text of each runbook, by file name.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(operatorGuide, "runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		if f.Name() != "README.md" {
			all[f.Name()] = readPage(t, filepath.Join(operatorGuide, "runbooks", f.Name()))
		}
	}
	return all
}

// The page about monitoring lists all alarms with their thresholds.
func TestAlarmsPage(t *testing.T) {
	rows := []string{"| alarm | fires if | in | runbook |", "|---|---|---|---|"}
	for _, a := range allAlarms(t) {
		rows = append(rows,
			fmt.Sprintf("| %#q | %s | %s | [%s](runbooks/%s) |", a.name, rule(a.properties), periods(a.properties),
				strings.TrimSuffix(a.runbook, ".md"), a.runbook))
	}
	checkPage(t, "monitoring.md", "alarms", rows)
}

// rule returns the rule of an alarm in words.
func rule(p fakeaws.Tree) string {
	metric := strings.ToLower(fakeaws.Text(p, "Statistic")) + " of `" + fakeaws.Text(p, "MetricName") + "`"
	if list, ok := p["Metrics"].([]any); ok {
		metric = "`" + fakeaws.Text(list[0], "Expression") + "`"
	}
	comparison := map[string]string{
		"GreaterThanThreshold": "above", "GreaterThanOrEqualToThreshold": "at least",
	}[fakeaws.Text(p, "ComparisonOperator")]
	return metric + " is " + comparison + " " + fakeaws.Text(p, "Threshold")
}

// periods returns the time that a rule has to hold.
func periods(p fakeaws.Tree) string {
	period := fakeaws.Text(p, "Period")
	if list, ok := p["Metrics"].([]any); ok {
		period = fakeaws.Text(list[1], "MetricStat", "Period")
	}
	text := map[string]string{"60": "a minute", "300": "5 minutes"}[period]
	if fakeaws.Text(p, "EvaluationPeriods") == "2" {
		return "2 periods of " + text
	}
	return text
}
