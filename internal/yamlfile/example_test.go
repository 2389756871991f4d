package yamlfile_test

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// animal is what the files of the examples list.
type animal struct {
	name, kind string
	tame       bool
}

type zooDecoder struct {
	yamlfile.Reader
	animals []animal
}

// parseZoo reads a file as the documentation of the package shows.
func parseZoo(data []byte) ([]animal, error) {
	d := &zooDecoder{}
	d.Form = yamlfile.Form{
		Empty:  "the file is empty; list animals under the key animals",
		Second: "another document begins here; a zoo is one document",
	}
	if root, ok := d.Document(data); ok {
		d.Fields(root, yamlfile.Fields{"animals": d.decodeAnimals})
	}

	var problems []error
	for _, p := range d.Problems {
		problems = append(problems, errors.New(p.String()))
	}
	return d.animals, errors.Join(problems...)
}

func (d *zooDecoder) decodeAnimals(n yamlfile.Node) {
	d.Entries(n, func(name, n yamlfile.Node) {
		one := animal{name: name.Value}
		given := d.Fields(n, yamlfile.Fields{
			"kind": func(n yamlfile.Node) { one.kind, _ = d.Text(n) },
			"tame": func(n yamlfile.Node) { one.tame = d.Bool(n) },
		})
		if !given.Has("kind") {
			d.Problem(name, "the key kind is missing, such as kind: tiger")
		}
		d.animals = append(d.animals, one)
	})
}

func Example() {
	animals, err := parseZoo([]byte("animals:\n  Ada: {kind: tiger}\n  Bob: {kind: parrot, tame: true}\n"))
	fmt.Println(animals, err)

	_, err = parseZoo([]byte("animals:\n  Ada: {tame: 1}\n  Bob: {knid: parrot}\n"))
	fmt.Println(err)
	// Output:
	// [{Ada tiger false} {Bob parrot true}] <nil>
	// line 2: animals.Ada.tame: must be true or false, not 1
	// line 2: animals.Ada: the key kind is missing, such as kind: tiger
	// line 3: animals.Bob: there is no key "knid" here; the keys are kind, tame
	// line 3: animals.Bob: the key kind is missing, such as kind: tiger
}
