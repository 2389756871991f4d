package web

import (
	"errors"
	"testing"
)

// A holder hears of its own bound first, and what was refused holds nothing.
func TestPlaces(t *testing.T) {
	errOwn, errAll := errors.New("own"), errors.New("all")
	var p Places
	all := Bound{Most: 5, Full: errAll}
	take := func(name string, n int64) error { return p.Take(n, Bound{"client", name, 3, errOwn}, all) }
	for _, tt := range []struct {
		name string
		n    int64
		want error
	}{
		{"a", 3, nil},
		{"a", 1, errOwn},
		{"b", 2, nil},
		{"b", 1, errAll},
		{"a", 1, errOwn},
		{"b", 2, errOwn},
		{"", 1, errAll},
	} {
		if err := take(tt.name, tt.n); !errors.Is(err, tt.want) {
			t.Errorf("%d for %q: %v, want %v", tt.n, tt.name, err, tt.want)
		}
	}
	if p.Held(all) != 5 || p.Holders() != 3 {
		t.Errorf("%d are held by %d", p.Held(all), p.Holders())
	}

	p.Give(3, Bound{Group: "client", Name: "a"}, all)
	if err := take("b", 1); err != nil {
		t.Errorf("after a place was given back: %v", err)
	}
	// An entry for each name that clients invent would fill the memory.
	p.Give(3, Bound{Group: "client", Name: "b"}, all)
	if p.Held(all) != 0 || p.Holders() != 0 {
		t.Errorf("%d are held by %d at the end", p.Held(all), p.Holders())
	}
}
