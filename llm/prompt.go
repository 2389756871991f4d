package llm

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Counter counts the tokens of a prompt for a model. Its text holds the strings
// of the prompt, a line each.
type Counter func(model, text string) int64

const (
	bytesPerToken = 4    // of text, where no Counter is set
	binaryTokens  = 1000 // of an image, a sound or a file that the request contains
)

// promptFields lists the fields that hold text. schemaFields lists the fields
// that hold structures, whose names and punctuation cost tokens too.
var (
	promptFields = map[Format][]string{
		Chat:        {"messages"},
		Completions: {"prompt", "suffix"},
		Responses:   {"input", "instructions"},
		Embeddings:  {"input", "prompt"}, // the latter is Ollama's
		Messages:    {"system", "messages"},
	}
	schemaFields = []string{"tools", "functions", "response_format", "text"}
)

// prompt adds up the parts of a prompt.
type prompt struct {
	format    Format
	count     Counter
	text      []byte // for count
	bytes     int64  // of text
	tokens    int64  // of parts that are not text
	excess    int64  // of the tokens over half a token a byte, in sixths; ordinary text is below 0
	reference string // the first field that refers to input outside of the body
	inline    inline
}

// idleFields lists the fields that are no part of a prompt.
var idleFields = []string{
	"model", "user", "metadata", "stop", "stop_sequences", "seed", "logit_bias", "prompt_cache_key",
	"safety_identifier", "service_tier", "stream_options", "include", "encoding_format", "modalities",
}

// readPrompt counts the tokens of the prompt, and looks for references.
func (r *Request) readPrompt(o object, count Counter) {
	p := prompt{format: r.Format, count: count}
	for _, name := range slices.Concat(referenceFields[r.Format], sharedReferences) {
		// Some of these fields switch a search off.
		if raw := o.raw(name); raw != nil && string(raw) != "false" {
			p.refer(name)
		}
	}

	if count != nil {
		// The text of a string is never longer than its JSON, so the buffer
		// does not grow.
		p.text = make([]byte, 0, len(o.text))
	}

	for _, name := range promptFields[r.Format] {
		p.addValue(o.raw(name))
	}
	for _, name := range schemaFields {
		p.addText(o.raw(name))
	}
	p.addOthers(o)

	if hasHostedTool(r.Format, o.raw("tools")) {
		p.refer("tools")
	}
	p.inline.end(r.Format)
	r.Reference, r.inline = p.reference, p.inline
	r.excess, r.tools = max(0, (p.excess+5)/6), toolTokens(o.raw("tools"))+toolTokens(o.raw("functions"))

	if count != nil {
		r.Prompt = clampTokens(p.tokens + clampTokens(count(r.Model, string(p.text))))
		return
	}
	r.Prompt = clampTokens(p.tokens + (p.bytes+bytesPerToken-1)/bytesPerToken)
}

// addOthers looks for references and dense text in the fields that the formats do
// not have: some server may read them. They do not count as text of the prompt.
func (p *prompt) addOthers(o object) {
	known := slices.Concat(promptFields[p.format], schemaFields, idleFields)

	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		raw := o.raw(name)
		if raw == nil || slices.Contains(known, name) {
			continue
		}

		w := walk{field: fieldOf([]byte(name))}
		// Only in messages does this name an argument.
		if w.field == fieldInput {
			w.field = fieldOther
		}

		w.run(raw, func(what byte, quoted []byte) {
			switch what {
			case ':':
				p.addName(quoted)
			case '"':
				p.noteString(&w, quoted)
			}
		})
	}
}

// addText adds a structure as written. Some APIs write it into the prompt as it is,
// so what is dense in it counts too: short numbers and empty objects.
func (p *prompt) addText(text []byte) {
	p.bytes += int64(len(text))
	if p.count != nil && len(text) > 0 {
		p.text = append(append(p.text, text...), '\n')
	}

	var w walk
	w.run(text, func(what byte, quoted []byte) {
		switch what {
		case ':', '"':
			p.excess += excessOf(quoted, false)
		default:
			p.addDense(quoted)
		}
	})
}

// addDense adds the excess of a number with its comma, or of the end of a list or an
// object, where the API reads it as written: each byte may be a token.
func (p *prompt) addDense(number []byte) {
	p.excess += halfToken * int64(len(number)+1)
}

// addName adds the excess of a name. APIs that write it into the prompt do so with
// its quotes and its colon, and others save its tokens.
func (p *prompt) addName(quoted []byte) {
	const around = len(`"":`)
	p.excess += max(0, excessOf(quoted, true)-halfToken*int64(around))
}

// addValue adds the strings of valid JSON, without the names of fields. A number
// counts as one token, since a prompt may be a list of tokens.
func (p *prompt) addValue(raw []byte) {
	var w walk
	var item item
	w.run(raw, func(what byte, quoted []byte) {
		item.note(&w, what)
		if what != ':' && what != '"' && p.format == Messages && w.inArguments() {
			p.addDense(quoted)
		}

		switch what {
		case ':':
			p.addName(quoted)
		case '"':
			p.addString(&w, quoted)
		case '0':
			p.tokens++
		case '}':
			if p.format == Responses && item.ends(&w) {
				p.refer("id")
			}
		}
	})
}

// addString adds a string, given without its quotes.
func (p *prompt) addString(w *walk, quoted []byte) {
	p.noteString(w, quoted)

	switch {
	case isBinary(w.field, quoted):
		p.tokens += min(binaryTokens, int64(len(quoted)))
	case p.count == nil:
		p.bytes += int64(len(quoted))
	default:
		p.text, _ = unquote(p.text, quoted)
		p.text = append(p.text, '\n')
	}
}

// noteString notes what a string refers to or holds, or how dense its text is.
func (p *prompt) noteString(w *walk, quoted []byte) {
	if name := w.refers(p.format, quoted); name != "" {
		p.refer(name)
	}
	if !p.inline.add(w, p.format, quoted) {
		p.excess += excessOf(quoted, true)
	}
}

// isBinary reports whether a string is an image, a sound or a file: base64 in a
// field that the formats have for it, or a data URL with a media type. Any other
// string is text, whatever it starts with.
func isBinary(f field, text []byte) bool {
	switch f {
	case fieldData:
		return isBase64(text)
	case fieldFileData, fieldURL, fieldImageURL:
		head, content, found := bytes.Cut(text, []byte(";base64,"))
		media, isData := bytes.CutPrefix(head, []byte("data:"))
		if !found {
			return f == fieldFileData && isBase64(text)
		}

		return isData && len(media) < maxMedia && bytes.Contains(media, []byte("/")) && isBase64(content)
	}
	return false
}

const maxMedia = 256 // bytes of a media type

// isBase64 reports whether all bytes are digits of base64, in JSON that may escape
// slashes and ends of lines.
func isBase64(text []byte) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		// Valid JSON has a byte after a backslash.
		if c == '\\' && bytes.ContainsAny(text[i+1:i+2], "/nr") {
			i++
			continue
		}

		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (c < '0' || c > '9') &&
			strings.IndexByte("+/=-_", c) < 0 {
			return false
		}
	}
	return true
}
