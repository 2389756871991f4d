package llm

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
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
	own       bool   // the current field is the format's own for a prompt
	arguments bool   // the current field may hold arguments of a tool, in Messages
	text      []byte // for count
	bytes     int64  // of text
	tokens    int64  // of parts that are not text
	excess    int64  // of the tokens over half a token a byte, in sixths; ordinary text is below 0
	reference string // the first field that refers to input outside of the body
	inline
	// predicted is the part of the excess that a prediction has, in sixths.
	predicted int64
	blocks    [trackedDepth]block // of the open lists and objects
}

// idleFields lists the fields that are no part of a prompt.
var idleFields = []string{
	"model", "user", "metadata", "stop", "stop_sequences", "seed", "logit_bias", "prompt_cache_key",
	"safety_identifier", "service_tier", "stream_options", "include", "encoding_format", "modalities",
}

// predictionField holds the text that OpenAI expects an answer to have. What differs
// from it is billed as an answer beside the answer.
const predictionField = "prediction"

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
		p.own, p.arguments = true, r.Format == Messages && name == "messages"
		p.addValue(o.raw(name))
	}
	p.own, p.arguments = false, false
	for _, name := range schemaFields {
		p.addText(o.raw(name))
	}
	p.addOthers(o)

	if hasHostedTool(r.Format, o.raw("tools")) {
		p.refer("tools")
	}
	if hasHostedTool(r.Format, o.raw("functions")) {
		p.refer("functions")
	}
	// OpenRouter searches for such a model.
	if strings.HasSuffix(r.Model, ":online") {
		p.refer("model")
	}

	r.Reference, r.inline = p.reference, p.inline
	r.excess, r.tools = max(0, (p.excess+5)/6), toolTokens(o.raw("tools"))+toolTokens(o.raw("functions"))
	r.predictedSize, r.predictedExcess = int64(len(o.raw(predictionField))), max(0, (p.predicted+5)/6)

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

		before := p.excess
		w := walk{field: fieldOf([]byte(name))}
		w.run(raw, func(what byte, quoted []byte) {
			p.noteBlock(&w, what, quoted)
			switch what {
			case ':':
				p.addName(quoted)
			case '"':
				// Some server may read all of it as text, so that it has no
				// bytes of an image.
				p.noteString(&w, quoted, 0)
			}
		})

		// What is predicted may be billed as an answer.
		if name == predictionField {
			p.predicted, p.excess = p.excess-before, before
		}
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
		case '0', '}':
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
	item := newItem(raw)
	w.run(raw, func(what byte, quoted []byte) {
		p.noteBlock(&w, what, quoted)
		if p.format == Responses {
			item.note(&w, what, quoted)
		}
		if (what == '0' || what == '}') && p.inArguments(&w) {
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
			if p.format != Responses {
				return
			}
			if name := item.ends(&w); name != "" {
				p.refer(name)
			}
		}
	})
}

// addString adds a string, given without its quotes.
func (p *prompt) addString(w *walk, quoted []byte) {
	size := int64(0)
	if isBinary(w.field, quoted) {
		size = int64(len(quoted))
	}
	p.noteString(w, quoted, size)

	switch {
	case size > 0:
		p.tokens += min(binaryTokens, size)
	case p.count == nil:
		p.bytes += int64(len(quoted))
	default:
		p.text, _ = unquote(p.text, quoted)
		p.text = append(p.text, '\n')
	}
}

// noteString notes what a string refers to or holds, or how dense its text is. The
// string has size bytes of base64.
func (p *prompt) noteString(w *walk, quoted []byte, size int64) {
	// Arguments of a tool are data for it. The API reads no file or image that
	// they name.
	if len(quoted) > 0 && !p.inArguments(w) {
		isData, isImage := isDataURL(quoted)
		if name := w.refers(p.format, quoted, isData); name != "" {
			p.noteInside(w)
			p.refer(name)
		}
		if p.addInline(w, quoted, isData, isImage, size) {
			return
		}
	}
	p.excess += excessOf(quoted, true)
}

// isBinary reports whether a string counts as an image, a sound or a file: base64 in
// a field that the formats have for it, or a data URL with a media type. Any other
// string counts by its length, whatever it starts with. Whether a string can have
// more tokens than that, addInline decides, by its place alone.
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

// isBase64 reports whether all characters of a string of valid JSON, given without
// its quotes, are digits of base64, or ends of lines.
func isBase64(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		c := quoted[i]
		if c == '\\' {
			i++
			if c = unescape(quoted[i]); c == 'u' {
				r := hexRune(quoted[i+1:])
				if r >= utf8.RuneSelf {
					return false
				}
				i, c = i+4, byte(r)
			}
		}
		if !base64Digits[c] {
			return false
		}
	}
	return true
}

var base64Digits = func() (digits [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\n\r") {
		digits[c] = true
	}
	return digits
}()
