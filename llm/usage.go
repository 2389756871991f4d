package llm

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go"
)

// Usage is the number of tokens that a call used, and what they cost.
type Usage struct {
	Input  int64 // tokens of the prompt, cached ones included
	Output int64 // tokens of the answer, with its reasoning
	Cached int64 // tokens of the prompt that came from the API's cache
	// Written counts the tokens of the prompt that the API wrote to its cache, as
	// Anthropic reports them.
	Written int64
	// Cost is in millionths of a dollar, at most a million dollars. A [Lease]
	// sets it if its model has a price.
	Cost int64
}

// Total returns the sum of Input and Output.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Limits names the limits that calls are charged to. An empty name charges
// nothing. Two fields may have the same name; their amounts add up.
type Limits struct {
	Requests string // one for every call
	Total    string // tokens of prompt and answer
	Input    string // tokens of the prompt
	Output   string // tokens of the answer
	// Cached is charged with the tokens of the prompt that came from the API's
	// cache. They are known only after the call.
	Cached string
	Cost   string // millionths of a dollar, by Options.Prices
}

// Amounts returns the amounts of a number of calls with u in total, for the
// limits that l names.
func (l Limits) Amounts(calls int64, u Usage) limiter.Amounts {
	var a limiter.Amounts
	for _, part := range []struct {
		limit string
		n     int64
	}{
		{l.Requests, calls},
		{l.Total, u.Total()},
		{l.Input, u.Input},
		{l.Output, u.Output},
		{l.Cached, u.Cached},
		{l.Cost, u.Cost},
	} {
		if part.limit != "" {
			a = a.And(part.limit, part.n)
		}
	}
	return a
}

// mixes reports whether one limit is charged with money and with something else.
func (l Limits) mixes() bool {
	return l.Cost != "" && Limits{
		Requests: l.Requests, Total: l.Total, Input: l.Input, Output: l.Output, Cached: l.Cached,
	}.has(l.Cost)
}

// has reports whether l names a limit.
func (l Limits) has(name string) bool {
	return slices.Contains([]string{l.Requests, l.Total, l.Input, l.Output, l.Cached, l.Cost}, name)
}

// only returns l without the names that keep rejects.
func (l Limits) only(keep func(name string) bool) Limits {
	for _, name := range []*string{&l.Requests, &l.Total, &l.Input, &l.Output, &l.Cached, &l.Cost} {
		if !keep(*name) {
			*name = ""
		}
	}
	return l
}

// wireUsage is the usage object of every format. A format uses some of the fields.
type wireUsage struct {
	Prompt        count   `json:"prompt_tokens"`
	Completion    count   `json:"completion_tokens"`
	Input         count   `json:"input_tokens"`
	Output        count   `json:"output_tokens"`
	Total         count   `json:"total_tokens"`
	Reasoning     count   `json:"reasoning_tokens"`
	CacheCreation count   `json:"cache_creation_input_tokens"`
	CacheRead     count   `json:"cache_read_input_tokens"`
	PromptDetails details `json:"prompt_tokens_details"`
	InputDetails  details `json:"input_tokens_details"`

	CompletionDetails outputDetails `json:"completion_tokens_details"`
	OutputDetails     outputDetails `json:"output_tokens_details"`
}

// details divides the tokens of a prompt. Gateways to several APIs report what a
// cache stored, under one of two names.
type details struct {
	Cached   count `json:"cached_tokens"`
	Written  count `json:"cache_write_tokens"`
	Creation count `json:"cache_creation_tokens"`
}

// outputDetails divides the tokens of an answer.
type outputDetails struct {
	Reasoning count `json:"reasoning_tokens"`
}

// count is a number of tokens in an answer. A value that is no number or negative
// counts as absent.
type count struct {
	n     int64
	known bool
}

// UnmarshalJSON reads a number. It never fails, so that the other fields are read.
func (c *count) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseFloat(string(text), 64); err == nil && n >= 0 {
		*c = count{int64(min(n, maxTokens)), true}
	}
	return nil
}

// parseUsage decodes a usage object.
func parseUsage(text []byte) wireUsage {
	var w wireUsage
	_ = json.Unmarshal(text, &w)
	return w
}

// openAI returns the numbers of OpenAI's formats, under either of their names.
func (w wireUsage) openAI() (input, output, cached, written count) {
	input, output = w.Input, w.Output
	replace(&input, w.Prompt)
	replace(&output, w.Completion)
	// Gateways use one name or the other, and the last one that is known
	// counts.
	for _, d := range []details{w.InputDetails, w.PromptDetails} {
		replace(&cached, d.Cached)
		replace(&written, d.Creation)
		replace(&written, d.Written)
	}

	return input, output, cached, written
}

// addHidden adds to u the tokens that a usage of OpenAI's formats has beside the prompt
// and the answer, which APIs bill too. Some report the reasoning of a model outside of
// the answer, and others in the total alone: of a prompt of 32 tokens, an answer of 9
// and a total of 30,041, hidden are 30,000, and the output becomes 30,009. So the
// output is at least the total less the prompt.
//
// A prompt includes its cached tokens. Where it does not, since they exceed it or are
// all that the total has more, they are added to the prompt, and are no output.
//
// The result is the part of the output for which there is no name, but only the sum.
func (w wireUsage) addHidden(u *Usage, cached, written int64) (unnamed int64) {
	reasoning := max(w.Reasoning.n, w.CompletionDetails.Reasoning.n, w.OutputDetails.Reasoning.n)
	hidden := max(w.Total.n-u.Input-u.Output, 0)

	// Gateways to Anthropic's API keep its names.
	if w.CacheRead.n+w.CacheCreation.n > cached+written {
		cached, written = w.CacheRead.n, w.CacheCreation.n
	}
	cache := cached + written
	if cache > 0 && hidden >= cache && (cache > u.Input || hidden == cache && reasoning < hidden) {
		hidden -= cache
		u.Input, u.Cached, u.Written = clampTokens(u.Input+cache), cached, written
	}

	named := min(reasoning, hidden)
	// Reasoning that is longer than the answer is no part of it.
	if reasoning > u.Output {
		named = reasoning
	}
	hidden = max(hidden, named)
	u.Output = clampTokens(u.Output + hidden)
	return hidden - named
}

// anthropic collects the parts of a usage of Anthropic's format, where a later
// object replaces the values that it repeats.
type anthropic struct{ input, creation, read, output count }

func (a *anthropic) merge(w wireUsage) {
	replace(&a.input, w.Input)
	replace(&a.creation, w.CacheCreation)
	replace(&a.read, w.CacheRead)
	replace(&a.output, w.Output)
}

func replace(old *count, latest count) {
	if latest.known {
		*old = latest
	}
}

// known reports whether prompt and answer are known.
func (a *anthropic) known() bool { return a.input.known && a.output.known }

func (a *anthropic) usage() Usage {
	return Usage{
		Input: clampTokens(a.input.n + a.creation.n + a.read.n), Output: a.output.n, Cached: a.read.n,
		Written: a.creation.n,
	}
}
