package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads the scenario in a YAML file. The error is a *[FileError] if the
// file holds no valid scenario.
func Load(path string) (Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Scenario{}, err
	}
	return Parse(path, data)
}

// Parse reads a scenario from YAML or JSON. The scenario is called as its key
// name says, else as the file without its extension. Parse reports every
// problem that it finds in one *[FileError]: unknown and duplicate keys are
// errors. Aliases are followed, but merge keys are not supported.
func Parse(file string, data []byte) (Scenario, error) {
	root, bad := parseDocument(data)
	if bad != nil {
		return Scenario{}, &FileError{file, []Problem{*bad}, false}
	}

	d := &decoder{}
	plan := d.decodePlan(root, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))

	if len(d.problems) > 0 {
		// The checks after the decoding find problems of earlier lines.
		slices.SortStableFunc(d.problems, func(a, b Problem) int { return a.Line - b.Line })
		return Scenario{}, &FileError{file, slices.Compact(d.problems), plan.foreign}
	}

	return plan.scenario(), nil
}

// FileError is the error for a file that holds no valid scenario. It has at
// least one problem, in the order of the file.
type FileError struct {
	File     string
	Problems []Problem
	// foreign reports that the file has no key classes, so that it belongs to
	// another program.
	foreign bool
}

// Problem describes one mistake in a file.
type Problem struct {
	Line int    // from 1; 0 if unknown
	Text string // what is wrong, and what would be right
}

// Error returns one line for each problem, such as "load.yaml:12: TEXT".
func (e *FileError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.File + ":"
		if p.Line > 0 {
			lines[i] += strconv.Itoa(p.Line) + ":"
		}
		lines[i] += " " + p.Text
	}
	return strings.Join(lines, "\n")
}

// maxFile is the size of a file in bytes that Parse accepts.
const maxFile = 1 << 20

// parseDocument returns the root node of the only document in data.
func parseDocument(data []byte) (*yaml.Node, *Problem) {
	if len(data) > maxFile {
		return nil, &Problem{0, fmt.Sprintf("the file has %d bytes; a scenario has at most %d", len(data), maxFile)}
	}

	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Problem{0, "the file is empty; a scenario has at least the key classes"}
	case err != nil:
		return nil, syntaxProblem(data, err)
	}

	switch err := in.Decode(&next); {
	case err == nil:
		return nil, &Problem{next.Line, "another document begins here; put each scenario in a file of its own"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(data, err)
	}

	return doc.Content[0], nil
}

// syntaxProblem converts an error of the YAML library, which has a line at most.
func syntaxProblem(data []byte, err error) *Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")

	// The library gives no line for this error, so the line names the first
	// reference.
	if found := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(text); found != nil {
		line := 0
		if before, _, ok := bytes.Cut(data, []byte("*"+found[1])); ok {
			line = 1 + bytes.Count(before, []byte("\n"))
		}
		return &Problem{line, fmt.Sprintf("*%s refers to no anchor; define it with &%s", found[1], found[1])}
	}

	if found := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); found != nil {
		line, _ := strconv.Atoi(found[1])
		return &Problem{line, "invalid YAML: " + text[len(found[0]):]}
	}

	return &Problem{0, "invalid YAML: " + text}
}
