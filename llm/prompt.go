package llm

import (
	"bytes"
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
	reference string // the first field that refers to input outside of the body
	inline    inline
}

// readPrompt counts the tokens of the prompt, and looks for references.
func (r *Request) readPrompt(o object, count Counter) {
	p := prompt{format: r.Format, count: count}
	for _, name := range referenceFields[r.Format] {
		if o.raw(name) != nil {
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

	if hasHostedTool(r.Format, o.raw("tools")) {
		p.refer("tools")
	}
	p.inline.end(r.Format)
	r.Reference, r.inline = p.reference, p.inline

	if count != nil {
		r.Prompt = clampTokens(p.tokens + clampTokens(count(r.Model, string(p.text))))
		return
	}
	r.Prompt = clampTokens(p.tokens + (p.bytes+bytesPerToken-1)/bytesPerToken)
}

// addText adds a structure as written.
func (p *prompt) addText(text []byte) {
	p.bytes += int64(len(text))
	if p.count != nil && len(text) > 0 {
		p.text = append(append(p.text, text...), '\n')
	}
}

// addValue adds the strings of valid JSON, without the names of fields. A number
// counts as one token, since a prompt may be a list of tokens.
func (p *prompt) addValue(raw []byte) {
	var w walk
	var item item
	w.run(raw, func(what byte, quoted []byte) {
		item.note(&w, what)
		switch what {
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
	if name := w.refers(p.format, quoted); name != "" {
		p.refer(name)
	}

	p.inline.add(w, p.format, quoted)
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
