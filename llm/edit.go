package llm

import (
	"bytes"
	"slices"
	"strconv"
)

// Edit is a change of a body: Text replaces the bytes from Start to End.
type Edit struct {
	Start, End int
	Text       string
}

// ApplyEdits returns a body after edits, which must not overlap, in parts to be
// sent one after the other. The parts share the memory of the body. Several
// insertions at one position stay in their order.
func ApplyEdits(body []byte, edits ...Edit) [][]byte {
	edits = slices.SortedStableFunc(slices.Values(edits), func(a, b Edit) int { return a.Start - b.Start })
	var parts [][]byte
	at := 0
	for _, e := range edits {
		// The bound on the capacity keeps an append to a part from overwriting
		// the body behind it.
		parts = append(parts, body[at:e.Start:e.Start], []byte(e.Text))
		at = e.End
	}

	parts = append(parts, body[at:])
	return slices.DeleteFunc(parts, func(p []byte) bool { return len(p) == 0 })
}

// layout holds the positions of the fields of an object that may be edited. It does
// not hold the text, which may be large and is needed for a short time only.
type layout struct {
	first  int  // position after the brace
	empty  bool // the object has no field
	values map[string]span
	usage  Edit     // makes a stream report its usage
	maxima []string // fields of a maximum that are there and not null
}

// layoutOf returns the layout of an object.
func layoutOf(o object, f Format) layout {
	l := layout{first: o.first, empty: len(o.fields) == 0, values: map[string]span{}}
	for _, name := range append([]string{"stream_options", "include_usage"}, maximumFields[f]...) {
		if at, ok := o.fields[name]; ok {
			l.values[name] = at
		}
	}
	return l
}

// set returns the edit that sets a field to a value in JSON. It replaces the value
// that is there, or inserts the field in front of the others.
func (l layout) set(name, value string) Edit {
	if at, ok := l.values[name]; ok {
		return Edit{at.start, at.end, value}
	}
	text := `"` + name + `":` + value
	if !l.empty {
		text += ","
	}
	return Edit{l.first, l.first, text}
}

// StreamUsageEdit returns the edit of the body that makes the stream of the answer
// end with its usage: it sets stream_options.include_usage. It returns false if r
// needs none, because r is no stream, its format reports the usage anyway, or r
// asks for it already. [StreamFilter] removes the additional chunk from the answer.
// The edit is valid for the body that r was parsed from.
func (r *Request) StreamUsageEdit() (Edit, bool) {
	needed := r.Stream && !r.StreamUsage && r.Format.asksForStreamUsage() && r.fields.usage.Text != ""
	return r.fields.usage, needed
}

// MaxOutputEdits returns the edits of the body that bound each answer to n tokens.
// They replace the values of all maxima that are there. Where the API may ignore
// all of these, they write field too, or the API's own if field is "". If n is 0,
// the maximum of r stays, and is written only where the API may ignore it. The edits
// are valid for the body that r was parsed from.
func (r *Request) MaxOutputEdits(n int64, field string) []Edit {
	obeyed := r.Format.obeyedMaxima(field)
	ignored := !r.sets(obeyed)
	// The maximum is in a field that the API may ignore, and has to be in one
	// that it obeys.
	if n == 0 && ignored {
		n = r.MaxOutput / max(r.Choices, 1)
	}

	if n == 0 || len(obeyed) == 0 {
		return nil
	}

	var edits []Edit
	value := strconv.FormatInt(n, 10)
	for _, name := range r.fields.maxima {
		// Servers that know the new field refuse it beside the old one, which
		// is written below.
		if ignored && name == newChatMaximum {
			edits = append(edits, r.fields.set(name, "null"))
		} else {
			edits = append(edits, r.fields.set(name, value))
		}
	}

	if ignored {
		edits = append(edits, r.fields.set(obeyed[0], value))
	}
	return edits
}

// WithStreamUsage returns the body of a request after StreamUsageEdit, or body
// itself if r needs none.
func (r *Request) WithStreamUsage(body []byte) []byte {
	if !r.Stream || r.StreamUsage || !r.Format.asksForStreamUsage() {
		return body
	}

	parsed, err := ParseRequest(r.Format, body, &RequestOptions{Model: r.Model})
	if err != nil {
		return body
	}

	edit, needed := parsed.StreamUsageEdit()
	if !needed {
		return body
	}
	return bytes.Join(ApplyEdits(body, edit), nil)
}
