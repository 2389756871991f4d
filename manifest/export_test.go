package manifest

import "time"

// WithWall returns a copy of the options with another wall clock.
func (o Options) WithWall(now func() time.Time) *Options {
	o.wall = now
	return &o
}

// TextAsYAML returns a mapping of text to itself, as a manifest writes it.
func TextAsYAML(text string) ([]byte, error) { return object{{text, text}}.yaml() }
