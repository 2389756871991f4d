package manifest

import "time"

// WithWall is the same options with another clock on the wall.
func (o Options) WithWall(now func() time.Time) *Options {
	o.wall = now
	return &o
}

// TextAsYAML is a mapping of a text to itself, as a manifest would write it.
func TextAsYAML(text string) ([]byte, error) { return object{{text, text}}.yaml() }
