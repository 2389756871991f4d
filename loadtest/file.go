package loadtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	if len(data) > maxFile {
		text := fmt.Sprintf("the file has %d bytes; a scenario has at most %d", len(data), maxFile)
		return Scenario{}, &FileError{file, []Problem{{0, text}}, false}
	}

	d := newDecoder()
	root, ok := d.Document(data)
	if !ok {
		return Scenario{}, d.err(file, false)
	}

	plan := d.decodePlan(root, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	if len(d.Problems) > 0 {
		return Scenario{}, d.err(file, plan.foreign)
	}
	return plan.scenario(), nil
}

// maxFile is the size of a file in bytes that Parse accepts.
const maxFile = 1 << 20

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
