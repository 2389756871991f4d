package llm

import (
	"bytes"
	"encoding/json"
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
		Embeddings:  {"input"},
		Messages:    {"system", "messages"},
	}
	schemaFields = []string{"tools", "functions", "response_format", "text"}
)

// prompt adds up the parts of a prompt.
type prompt struct {
	count  Counter
	text   strings.Builder // for count
	bytes  int64           // of text
	tokens int64           // of parts that are not text
}

// promptTokens counts the tokens of the prompt of a request.
func promptTokens(f Format, model string, o object, count Counter) int64 {
	p := prompt{count: count}
	for _, name := range promptFields[f] {
		p.addValue(o.raw(name))
	}
	for _, name := range schemaFields {
		p.addText(o.raw(name))
	}
	if count != nil {
		return clampTokens(p.tokens + clampTokens(count(model, p.text.String())))
	}
	return clampTokens(p.tokens + (p.bytes+bytesPerToken-1)/bytesPerToken)
}

func (p *prompt) addText(text []byte) {
	p.bytes += int64(len(text))
	if p.count != nil && len(text) > 0 {
		p.text.Write(text)
		p.text.WriteByte('\n')
	}
}

// addValue adds the strings of valid JSON, without the names of fields. A number
// counts as one token, since a prompt may be a list of tokens.
func (p *prompt) addValue(raw []byte) {
	name := "" // of the field that a string belongs to
	for at := 0; at < len(raw); {
		switch c := raw[at]; {
		case c == '"':
			end := skipString(raw, at)
			next := skipSpace(raw, end)
			if next < len(raw) && raw[next] == ':' {
				name = string(raw[at+1 : end-1])
			} else {
				p.addString(name, raw[at:end])
			}
			at = end
		case c == '-' || c >= '0' && c <= '9':
			p.tokens++
			at = skipValue(raw, at)
		default:
			at++
		}
	}
}

// addString adds a string with its quotes.
func (p *prompt) addString(name string, quoted []byte) {
	inner := quoted[1 : len(quoted)-1]
	switch {
	case isBinary(name, inner):
		p.tokens += min(binaryTokens, int64(len(inner)))
	case p.count == nil:
		p.bytes += int64(len(inner))
	default:
		var text string
		_ = json.Unmarshal(quoted, &text)
		p.addText([]byte(text))
	}
}

// isBinary reports whether a string is an image, a sound or a file: base64 in a
// field that the formats have for it, or a data URL with a media type. Any other
// string is text, whatever it starts with.
func isBinary(name string, text []byte) bool {
	switch name {
	case "data":
		return isBase64(text)
	case "file_data", "url", "image_url":
		head, content, found := bytes.Cut(text, []byte(";base64,"))
		media, isData := bytes.CutPrefix(head, []byte("data:"))
		if !found {
			return name == "file_data" && isBase64(text)
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
		if c == '\\' && bytes.ContainsAny(text[i+1:i+2], "/nr") { // valid JSON has a byte after it
			i++
			continue
		}
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (c < '0' || c > '9') && strings.IndexByte("+/=-_", c) < 0 {
			return false
		}
	}
	return true
}
