package loadtest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

func invalid(field, value, format string, args ...any) error {
	return &limiter.InvalidError{Field: field, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// Validate checks s. The error is a *[limiter.InvalidError].
func (s Scenario) Validate() error {
	// The name becomes a part of the namespace of each test.
	if err := (limiter.Namespace{Name: s.Name}).Validate(); err != nil || len(s.Name) > 64 {
		return invalid("scenario", s.Name,
			`must begin with a letter or digit, then letters, digits or "_.-:@"; at most 64 characters`)
	}

	if len(s.Classes) == 0 {
		return invalid("scenario", s.Name, "has no class; give at least one")
	}

	for i, c := range s.Classes {
		if slices.ContainsFunc(s.Classes[:i], func(other Class) bool { return other.Name == c.Name }) {
			return invalid("class", c.Name, "is listed twice; give each class once")
		}
		if err := c.validate(); err != nil {
			return err
		}
	}

	for i, shape := range s.Shapes {
		if slices.ContainsFunc(s.Shapes[:i], func(other Shape) bool { return other.Name == shape.Name }) {
			return invalid("shape", shape.Name, "is listed twice; give each shape once")
		}
		if err := shape.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Class) validate() error {
	switch {
	case c.Name == "":
		return invalid("class", "", "must have a name")
	case c.Weight < 0:
		return invalid("class", c.Name, "has weight %d; give 1 or more, or 0 for 1", c.Weight)
	case c.Wait.Min < 0 || c.Wait.Max < c.Wait.Min:
		return invalid("class", c.Name, "waits from %v to %v; give 0 <= min <= max", c.Wait.Min, c.Wait.Max)
	case len(c.Tasks) == 0:
		return invalid("class", c.Name, "has no task; give at least one")
	}

	for _, task := range c.Tasks {
		if task.Weight < 0 || task.Run == nil {
			return invalid("task", task.Name, "must have a function and a weight of 0 or more")
		}
	}
	return nil
}

func (s Shape) validate() error {
	if s.Name == "" || len(s.Stages) == 0 {
		return invalid("shape", s.Name, "must have a name and at least one stage")
	}

	for i, stage := range s.Stages {
		if stage.Duration <= 0 || stage.Users < 0 || !positive(stage.SpawnRate) {
			return invalid("shape", s.Name,
				"stage %d has a duration of %v, %d users and spawn rate %v; give a duration and rate above "+
					"0, and 0 or more users",
				i+1, stage.Duration, stage.Users, stage.SpawnRate)
		}
	}
	return nil
}

// positive reports whether f is a finite number above 0.
func positive(f float64) bool { return f > 0 && !math.IsInf(f, 1) }

// classNames returns the names of the classes of s.
func (s Scenario) classNames() []string {
	var names []string
	for _, c := range s.Classes {
		names = append(names, c.Name)
	}
	return names
}

// Select returns s with the named classes only, or s itself if no class is named.
func (s Scenario) Select(classes []string) (Scenario, error) {
	if len(classes) == 0 {
		return s, nil
	}

	var chosen []Class
	for _, name := range classes {
		i := slices.IndexFunc(s.Classes, func(c Class) bool { return c.Name == name })
		if i < 0 {
			return s, invalid("class", name, "scenario %s has no such class; choose from %s", s.Name,
				strings.Join(s.classNames(), ", "))
		}

		if !slices.ContainsFunc(chosen, func(c Class) bool { return c.Name == name }) {
			chosen = append(chosen, s.Classes[i])
		}
	}

	s.Classes = chosen
	return s, nil
}

// Shape returns the shape of s with a name.
func (s Scenario) Shape(name string) (Shape, error) {
	var names []string
	for _, shape := range s.Shapes {
		if shape.Name == name {
			return shape, nil
		}
		names = append(names, shape.Name)
	}

	if len(names) == 0 {
		return Shape{}, invalid("shape", name, "scenario %s has no shapes", s.Name)
	}
	return Shape{}, invalid("shape", name, "scenario %s has no such shape; choose from %s", s.Name,
		strings.Join(names, ", "))
}
