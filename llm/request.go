package llm

import (
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
	// Background reports whether the API makes the answer after the call has
	// returned. Only Responses has it.
	Background bool
	// Reference is the name of a field that refers to input outside of the body,
	// such as "previous_response_id", or an "image_url" that is no data URL. It is
	// "" if the body contains the whole prompt.
	Reference string

	size   int64  // bytes of the body
	excess int64  // most tokens of the prompt beyond half a token for each byte
	tools  int64  // tokens that the API may add for tools
	inline inline // images and files that the body contains
	// predictedSize and predictedExcess are the parts of size and of the excess
	// that a prediction has, which is not in excess.
	predictedSize, predictedExcess int64

	fields layout
}

// RequestOptions configures ParseRequest.
type RequestOptions struct {
	// Count counts the tokens of a prompt; default: a token for every four bytes.
	Count Counter
	// Model is the model, where the path of the request names it, as with Azure's
	// deployments. The body then names the same or none; default: the body's.
	Model string
}

const maxTokens = 1 << 40 // of one call; more is a mistake of a client or a server

// ParseRequest reads the body of a request. The error is a *limiter.InvalidError:
// the body is no JSON object, repeats a field, spells one in another case, names
// no model or another one than the path does, names more models, or has a value of
// the wrong type, which a lenient API could read in another way. A body with more than 1024 fields
// or two million elements is an error too. Without a Counter, the memory that
// ParseRequest needs does not depend on the size of the body.
func ParseRequest(f Format, body []byte, opts *RequestOptions) (*Request, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}

	if opts == nil {
		opts = &RequestOptions{}
	}

	r := &Request{Format: f, Choices: 1, size: int64(len(body))}
	if r.Model, err = o.model(opts.Model); err != nil {
		return nil, err
	}

	if err := r.readFields(o); err != nil {
		return nil, err
	}

	r.readPrompt(o, opts.Count)
	return r, nil
}

// readFields reads the fields that decide about the answer.
func (r *Request) readFields(o object) (err error) {
	if err := o.checkCase(r.Format); err != nil {
		return err
	}
	if err := o.checkModels(); err != nil {
		return err
	}

	if r.Stream, err = o.boolean("stream"); err != nil {
		return err
	}
	r.fields = layoutOf(o, r.Format)
	if r.StreamUsage, err = r.readStreamOptions(o); err != nil {
		return err
	}

	if r.Format == Responses {
		if r.Background, err = o.boolean("background"); err != nil {
			return err
		}
	}

	if r.Choices, err = o.choices(r.Format); err != nil {
		return err
	}

	most, err := r.readMaximum(o)
	r.MaxOutput = multiplyTokens(most, r.Choices)
	return err
}

// checkCase rejects a field that has the name of one that is read, in another
// case: some APIs ignore case.
func (o object) checkCase(f Format) error {
	read := slices.Concat([]string{"model", "stream", "stream_options", "n", "best_of", "background"},
		maximumFields[f], promptFields[f], schemaFields, referenceFields[f], sharedReferences, otherModels)

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

// readStreamOptions reports whether the request asks for the usage of a stream, and
// notes how it could.
func (r *Request) readStreamOptions(o object) (bool, error) {
	raw := o.raw("stream_options")
	if !r.Format.asksForStreamUsage() {
		return false, nil
	}

	if raw == nil {
		r.fields.usage = r.fields.set("stream_options", `{"include_usage":true}`)
		return false, nil
	}

	options, err := parseObject(raw)
	if err != nil {
		return false, wrongType("stream_options", raw, "an object without repeated fields")
	}

	r.fields.usage = layoutOf(options, r.Format).set("include_usage", "true")
	// The edit counts from the start of the options, and the body needs its own
	// positions.
	offset := o.fields["stream_options"].start
	r.fields.usage.Start += offset
	r.fields.usage.End += offset

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
	// Each prompt of a list gets its answers. Some servers take embeddings of
	// tokens beside text.
	if f == Completions {
		prompts = countPrompts(o.raw("prompt"))
		if embedded := o.raw("prompt_embeds"); embedded != nil {
			prompts += countPrompts(embedded)
		}
	}

	return multiplyTokens(most, prompts), nil
}

// countPrompts returns the number of prompts of a completion: the length of a list,
// unless the list is one prompt of tokens.
func countPrompts(raw []byte) int64 {
	if len(raw) == 0 || raw[0] != '[' {
		return 1
	}

	at := skipSpace(raw, 1)
	// A list of numbers is one prompt, written in tokens.
	if c := raw[at]; c == ']' || c == '-' || c >= '0' && c <= '9' {
		return 1
	}

	for n := int64(1); ; n++ {
		end, _ := skipValue(raw, at)
		if at = skipSpace(raw, end); raw[at] == ']' {
			return n
		}
		at = skipSpace(raw, at+1)
	}
}

// choiceFields lists the fields that ask for several answers. The largest counts.
// Some servers know best_of in chats too.
var choiceFields = map[Format][]string{
	Chat:        {"n", "best_of"},
	Completions: {"n", "best_of"},
}

const newChatMaximum, oldChatMaximum = "max_completion_tokens", "max_tokens"

// maximumFields lists the fields that bound an answer. The first is the API's own.
// Other servers of OpenAI's formats obey some of the others.
var maximumFields = map[Format][]string{
	Chat:        {newChatMaximum, oldChatMaximum, "max_new_tokens", "n_predict", "num_predict"},
	Completions: {"max_tokens", "max_new_tokens", "n_predict", "num_predict"},
	Responses:   {"max_output_tokens"},
	Messages:    {"max_tokens"},
}

// obeyedMaxima returns the fields that the API does not ignore: it obeys them, or
// refuses the request. The caller knows that the API obeys field, or the format's own
// if field is "". The first field of the result is the one to write.
func (f Format) obeyedMaxima(field string) []string {
	switch {
	case f == Chat && (field == "" || field == newChatMaximum):
		// Servers that know the new field know the old one too.
		return maximumFields[Chat][:2]
	case field != "":
		return []string{field}
	}
	return maximumFields[f][:min(1, len(maximumFields[f]))]
}

// sets reports whether the request sets one of some maxima.
func (r *Request) sets(maxima []string) bool {
	return slices.ContainsFunc(maxima, func(name string) bool { return slices.Contains(r.fields.maxima, name) })
}

// readMaximum returns the largest maximum that a request sets for one answer, at
// most maxTokens. A value below 1 means that there is none, which some servers take
// for an answer without end. So a request that sets one maximum and lifts another is
// an error.
func (r *Request) readMaximum(o object) (most int64, err error) {
	lifted := ""

	for _, name := range maximumFields[r.Format] {
		if o.raw(name) == nil {
			continue
		}

		n, err := o.whole(name)
		if err != nil {
			return 0, err
		}
		if r.fields.maxima = append(r.fields.maxima, name); n < 1 {
			lifted = name
		}
		most = max(most, min(n, maxTokens))
	}

	if lifted != "" && most > 0 {
		return 0, wrongType(lifted, o.raw(lifted), "1 or more beside another maximum")
	}
	return most, nil
}

// clampTokens bounds a number of tokens.
func clampTokens(n int64) int64 { return min(max(n, 0), maxTokens) }

// multiplyTokens returns a*b, at most maxTokens. Both are at least 0.
func multiplyTokens(a, b int64) int64 {
	if b > 0 && a > maxTokens/b {
		return maxTokens
	}
	return a * b
}

// MaximumField returns the name of the field that bounds an answer: the first
// that the request has, or else the API's own. It is "" for embeddings.
func (r *Request) MaximumField() string {
	if r == nil || len(maximumFields[r.Format]) == 0 {
		return ""
	}
	if len(r.fields.maxima) > 0 {
		return r.fields.maxima[0]
	}
	return maximumFields[r.Format][0]
}

const maxModel = 256 // bytes of the name of a model

// model returns the model of a request, whose path may name one too.
func (o object) model(named string) (string, error) {
	model, err := o.shortText("model", maxModel)
	// If path and body could differ, a client could call one model and pay for
	// another.
	switch {
	case named != "" && o.raw("model") != nil && (err != nil || model != named):
		return "", &limiter.InvalidError{
			Field: "model", Value: fmt.Sprintf("%.20s", model),
			Reason: "must be the model that the path names, or be left out",
		}
	case named != "":
		model = named
	}

	if model == "" || len(model) > maxModel || err != nil {
		return "", &limiter.InvalidError{
			Field: "model", Value: fmt.Sprintf("%.20s", model),
			Reason: fmt.Sprintf("must be the name of a model, with at most %d bytes", maxModel),
		}
	}
	return model, nil
}

// Format is the form of a request and its answer.
type Format string

// Formats of requests. All but [Messages] are OpenAI's.
const (
	Chat        Format = "chat"        // POST /v1/chat/completions
	Completions Format = "completions" // POST /v1/completions
	Responses   Format = "responses"   // POST /v1/responses
	Embeddings  Format = "embeddings"  // POST /v1/embeddings
	Messages    Format = "messages"    // POST /v1/messages, of Anthropic
)

// pathNames lists what a path ends with, after its version. A longer name comes before
// its own end.
var pathNames = []struct {
	path   string
	format Format
}{
	{"/chat/completions", Chat},
	{"/completions", Completions},
	{"/responses", Responses},
	{"/embeddings", Embeddings},
	{"/messages", Messages},
}

// FormatOf returns the format of requests that are posted to a path: a name of the
// API such as "/chat/completions", after nothing but versions, "api", "openai",
// "deployments/NAME" and "engines/NAME". It ignores case and a trailing slash. It
// returns false for other paths, also if they end like those: "/v1/threads/t/messages"
// is another call.
func FormatOf(path string) (Format, bool) {
	path = strings.ToLower(strings.TrimRight(path, "/"))
	for _, name := range pathNames {
		if before, ends := strings.CutSuffix(path, name.path); ends && isPrefix(before) {
			return name.format, true
		}
	}
	return "", false
}

// isPrefix reports whether a path in lower case may come before the name of a call.
func isPrefix(path string) bool {
	if path == "" {
		return true
	}
	parts := strings.Split(path, "/")
	if parts[0] != "" {
		return false
	}

	for i := 1; i < len(parts); i++ {
		switch part := parts[i]; {
		case part == "api", part == "openai", isVersion(part):
		case (part == "deployments" || part == "engines") && i+1 < len(parts) && parts[i+1] != "":
			i++
		default:
			return false
		}
	}
	return true
}

// isVersion reports whether a part of a path is a version, such as "v1" or
// "v1beta".
func isVersion(part string) bool {
	digits, found := strings.CutPrefix(part, "v")
	letters := strings.TrimLeft(digits, "0123456789")
	if !found || letters == digits {
		return false
	}
	stage := strings.TrimRight(letters, "0123456789")
	return stage == "alpha" || stage == "beta" || letters == ""
}
