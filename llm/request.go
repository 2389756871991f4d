package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Request holds the properties of a call that decide about its cost.
type Request struct {
	Format Format
	Model  string
	Prompt int64 // tokens of the prompt, as a Counter estimates them
	// MaxOutput is the maximum of tokens that the request sets for the answer,
	// over all its choices. It is 0 if the request sets none.
	MaxOutput int64
	Choices   int64 // answers that the request asks for, at least 1
	Stream    bool  // the answer is a stream of events
	// StreamUsage reports whether a stream ends with its usage because the
	// request asks for it. Only streams of Chat and Completions need to ask.
	StreamUsage bool
}

// RequestOptions configures ParseRequest.
type RequestOptions struct {
	// Count counts the tokens of a prompt; default: a token for every four bytes.
	Count Counter
	// Model is the model, where the path of the request names it, as with Azure's
	// deployments. The body then names the same or none; default: the body's.
	Model string
}

const (
	maxModel  = 256     // bytes of the name of a model
	maxTokens = 1 << 40 // of one call; more is a mistake of a client or a server
)

// ParseRequest reads the body of a request. The error is a *limiter.InvalidError:
// the body is no JSON object, repeats a field, spells one in another case, names
// no model or another one than the path does, or has a value of the wrong type,
// which a lenient API could read in another way.
func ParseRequest(f Format, body []byte, opts *RequestOptions) (*Request, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &RequestOptions{}
	}
	r := &Request{Format: f, Choices: 1}
	if err := o.readModel(opts.Model, &r.Model); err != nil {
		return nil, err
	}
	if r.Model == "" || len(r.Model) > maxModel {
		return nil, &limiter.InvalidError{Field: "model", Value: fmt.Sprintf("%.20s", r.Model), Reason: fmt.Sprintf("must be the name of a model, with at most %d characters", maxModel)}
	}
	if err := r.readFields(o); err != nil {
		return nil, err
	}
	r.Prompt = promptTokens(f, r.Model, o, opts.Count)
	return r, nil
}

// readFields reads the fields that decide about the answer.
func (r *Request) readFields(o object) (err error) {
	if err := o.checkCase(r.Format); err != nil {
		return err
	}
	if r.Stream, err = o.boolean("stream"); err != nil {
		return err
	}
	if r.StreamUsage, err = o.streamUsage(r.Format); err != nil {
		return err
	}
	if r.Choices, err = o.choices(r.Format); err != nil {
		return err
	}
	most, err := o.maxOutput(r.Format)
	r.MaxOutput = clampTokens(most * r.Choices)
	return err
}

// checkCase rejects a field that has the name of one that is read, in another
// case: some APIs ignore case.
func (o object) checkCase(f Format) error {
	read := slices.Concat([]string{"model", "stream", "stream_options", "n", "best_of"}, maximumFields[f], promptFields[f], schemaFields)
	for name := range o.fields {
		for _, known := range read {
			if name != known && strings.EqualFold(name, known) {
				return invalidBody(fmt.Sprintf("has the field %.40q, which must be spelled %q", name, known))
			}
		}
	}
	return nil
}

// asksForStreamUsage reports whether streams of a format contain their usage only
// if the request asks for it.
func (f Format) asksForStreamUsage() bool { return f == Chat || f == Completions }

// streamUsage reports whether the request asks for the usage of a stream.
func (o object) streamUsage(f Format) (bool, error) {
	raw := o.raw("stream_options")
	if raw == nil || !f.asksForStreamUsage() {
		return false, nil
	}
	options, err := parseObject(raw)
	if err != nil {
		return false, wrongType("stream_options", raw, "an object without repeated fields")
	}
	return options.boolean("include_usage")
}

// choices returns the number of answers that a request asks for.
func (o object) choices(f Format) (int64, error) {
	most, prompts := int64(1), int64(1)
	for _, name := range choiceFields[f] {
		n, err := o.whole(name)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	if f == Completions {
		var list []json.RawMessage
		o.decode("prompt", &list)
		if len(list) > 0 && !bytes.ContainsAny(list[0][:1], "-0123456789") { // not a list of tokens
			prompts = int64(len(list))
		}
	}
	return min(most, 1<<20) * min(prompts, 1<<20), nil
}

// choiceFields lists the fields that ask for several answers. The largest counts.
var choiceFields = map[Format][]string{
	Chat:        {"n"},
	Completions: {"n", "best_of"},
}

// maximumFields lists the fields that bound an answer, the first of them first.
var maximumFields = map[Format][]string{
	Chat:        {"max_completion_tokens", "max_tokens"},
	Completions: {"max_tokens"},
	Responses:   {"max_output_tokens"},
	Messages:    {"max_tokens"},
}

// maxOutput returns the maximum that a request sets for one answer, at most
// maxTokens / 2^20 so that it can be multiplied.
func (o object) maxOutput(f Format) (most int64, err error) {
	for _, name := range maximumFields[f] {
		n, err := o.whole(name)
		if err != nil {
			return 0, err
		}
		if most == 0 {
			most = min(max(n, 0), maxTokens>>20)
		}
	}
	return most, nil
}

// clampTokens bounds a number of tokens.
func clampTokens(n int64) int64 { return min(max(n, 0), maxTokens) }
