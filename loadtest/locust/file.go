package locust

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"text/template"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

//go:embed file.py.tmpl
var fileTemplate string

// FileOptions configures File. The zero value of a field is its default.
type FileOptions struct {
	Classes []string // names of the classes to use; default: all
	// Shape is the name of the shape that the master follows. Without one the
	// master has the number of users from its page or its arguments. Locust's
	// option --class-picker offers all shapes on its page.
	Shape string
	Keep  bool // leave the namespace of a test in the store
	// Follow ends the master when the process that started it ends.
	Follow bool
}

// File returns the Python file that a Locust master loads to run a scenario. It
// fails if a class or shape does not exist or has no name that Python allows.
func File(s loadtest.Scenario, opts *FileOptions) ([]byte, error) {
	if opts == nil {
		opts = &FileOptions{}
	}

	s, err := s.Select(opts.Classes)
	if err != nil {
		return nil, err
	}
	if opts.Shape != "" {
		if _, err := s.Shape(opts.Shape); err != nil {
			return nil, err
		}
	}

	file := pyFile{Scenario: s.Name, Namespace: "loadtest-" + s.Name + "-", Keep: opts.Keep, Follow: opts.Follow}
	for _, c := range s.Classes {
		file.Classes = append(file.Classes, pyClass{c.Name, max(c.Weight, 1)})
	}
	for _, shape := range s.Shapes {
		file.Shapes = append(file.Shapes, newPyShape(shape, opts.Shape))
	}

	if err := file.checkNames(); err != nil {
		return nil, err
	}
	return file.render()
}

// pyFile holds what the template needs.
type pyFile struct {
	Scenario, Namespace string
	Keep, Follow        bool
	Classes             []pyClass
	Shapes              []pyShape
}

type pyClass struct {
	Name   string
	Weight int
}

type pyShape struct {
	Name   string
	Chosen bool
	Stages []pyStage
}

type pyStage struct {
	Seconds string
	Users   int
	Rate    string
}

func newPyShape(shape loadtest.Shape, chosen string) pyShape {
	result := pyShape{Name: shape.Name, Chosen: shape.Name == chosen}
	for _, stage := range shape.Stages {
		result.Stages = append(result.Stages, pyStage{
			pyNumber(stage.Duration.Seconds()), stage.Users, pyNumber(stage.SpawnRate),
		})
	}
	return result
}

func pyNumber(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// pyKeywords lists the keywords of Python that the template does not contain.
const pyKeywords = "and as assert async await break continue def del elif else except finally from global " +
	"import in is lambda nonlocal " +
	"or pass raise try while with yield None True False"

// checkNames checks that the names of classes can be names in Python and differ
// from each other and from all words of the file.
func (f *pyFile) checkNames() error {
	names := make([]string, 0, len(f.Classes)+len(f.Shapes))
	for _, c := range f.Classes {
		names = append(names, c.Name)
	}
	for _, s := range f.Shapes {
		names = append(names, s.Name)
	}

	// A class with the name of something that the file uses would replace it.
	word := regexp.MustCompile(`[A-Za-z][A-Za-z0-9_]*`)
	taken := map[string]bool{}
	for _, own := range word.FindAllString(fileTemplate+pyKeywords, -1) {
		taken[own] = true
	}

	for _, name := range names {
		if word.FindString(name) != name || name == "" {
			return fmt.Errorf(
				"name %q: must be the name of a class in Python: a letter, then letters, digits and underscores",
				name,
			)
		}
		if taken[name] {
			return fmt.Errorf("name %q: has another meaning in the file; choose another name for the class or shape",
				name)
		}
		taken[name] = true
	}
	return nil
}

func (f *pyFile) render() ([]byte, error) {
	parsed, err := template.New("file").Funcs(template.FuncMap{"py": pyLiteral}).Parse(fileTemplate)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, f); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// pyLiteral returns a value in Python's notation.
func pyLiteral(value any) (string, error) {
	if b, ok := value.(bool); ok {
		return map[bool]string{true: "True", false: "False"}[b], nil
	}

	// A JSON string is a Python literal too.
	text, err := json.Marshal(value)
	return string(text), err
}
