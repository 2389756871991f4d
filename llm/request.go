package llm

import (
	"bytes"
	"encoding/json"
	"fmt"

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
}

const (
	maxModel  = 256     // bytes of the name of a model
	maxTokens = 1 << 40 // of one call; more is a mistake of a client or a server
)

// ParseRequest reads the body of a request. The error is a *limiter.InvalidError:
// the body is no JSON object, repeats a field, or names no model.
func ParseRequest(f Format, body []byte, opts *RequestOptions) (*Request, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &RequestOptions{}
	}
	r := &Request{Format: f, Choices: 1}
	o.decode("model", &r.Model)
	if r.Model == "" || len(r.Model) > maxModel {
		return nil, &limiter.InvalidError{Field: "model", Value: fmt.Sprintf("%.20s", r.Model), Reason: fmt.Sprintf("must be the name of a model, with at most %d characters", maxModel)}
	}
	o.decode("stream", &r.Stream)
	r.StreamUsage = o.streamUsage()
	r.Prompt = promptTokens(f, r.Model, o, opts.Count)
	r.Choices = o.choices(f)
	r.MaxOutput = clampTokens(o.maxOutput(f) * r.Choices)
	return r, nil
}

// asksForStreamUsage reports whether streams of a format contain their usage only
// if the request asks for it.
func (f Format) asksForStreamUsage() bool { return f == Chat || f == Completions }

// streamUsage reports whether the request asks for the usage of a stream.
func (o object) streamUsage() bool {
	raw := o.raw("stream_options")
	if raw == nil {
		return false
	}
	options, err := parseObject(raw)
	asked := false
	if err == nil {
		options.decode("include_usage", &asked)
	}
	return asked
}

// choices returns the number of answers that a request asks for.
func (o object) choices(f Format) int64 {
	n, best, prompts := int64(1), int64(1), int64(1)
	if f == Chat || f == Completions {
		o.decode("n", &n)
	}
	if f == Completions {
		o.decode("best_of", &best)
		var list []json.RawMessage
		o.decode("prompt", &list)
		if len(list) > 0 && !bytes.ContainsAny(list[0][:1], "-0123456789") { // not a list of tokens
			prompts = int64(len(list))
		}
	}
	return min(max(n, best, 1), 1<<20) * min(prompts, 1<<20)
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
func (o object) maxOutput(f Format) int64 {
	for _, name := range maximumFields[f] {
		var n int64
		if o.decode(name, &n); n > 0 {
			return min(n, maxTokens>>20)
		}
	}
	return 0
}

// clampTokens bounds a number of tokens.
func clampTokens(n int64) int64 { return min(max(n, 0), maxTokens) }
