package llm

import (
	"encoding/json"
	"slices"
)

// WithStreamUsage returns the body of a request changed so that the stream of its
// answer ends with the usage. It sets stream_options.include_usage and keeps every
// other byte. It returns body itself if r needs no change, because r is no stream,
// its format reports the usage anyway, or r asks for it already. [StreamFilter]
// removes the additional chunk from the answer.
func (r *Request) WithStreamUsage(body []byte) []byte {
	if !r.Stream || r.StreamUsage || !r.Format.asksForStreamUsage() {
		return body
	}
	o, err := parseObject(body)
	if err != nil {
		return body
	}
	options := map[string]json.RawMessage{}
	o.decode("stream_options", &options)
	if options == nil {
		options = map[string]json.RawMessage{}
	}
	options["include_usage"] = json.RawMessage("true")
	value, err := json.Marshal(options)
	if err != nil {
		return body
	}
	if at, ok := o.fields["stream_options"]; ok {
		return slices.Concat(body[:at.start], value, body[at.end:])
	}
	first := skipSpace(body, 0) + 1 // after the brace; the object has a model, so a comma follows
	return slices.Concat(body[:first], []byte(`"stream_options":`), value, []byte(","), body[first:])
}
