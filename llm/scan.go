package llm

import "slices"

// scanner finds a few values in a JSON text that arrives in parts. It keeps only
// what it looks for, so its memory is bounded, and it accepts any bytes: a text
// that is not JSON yields nothing or nonsense, never an error.
type scanner struct {
	depth    int
	inString bool
	escaped  bool
	isList   [tracked]bool   // this depth is a list, whose strings are values
	isKey    [tracked]bool   // a string at this depth is the name of a field
	path     [tracked]string // names of the fields that lead to the current value
	word     []byte          // the string that is being read, if it is a name or a type
	keep     bool            // word collects the current string
	counted  bool            // the current string is text of the answer

	usage    []byte // the object being captured
	usageAt  int    // its depth; 0 if none is being captured
	overflow bool   // the captured object is too long

	found found
	begun bool // the text has a value
}

// found holds what the scanner has found in one text.
type found struct {
	// usage is the object "usage", of the text itself or of its "message" or
	// "response".
	usage       []byte
	usageParent string // "", "message" or "response"
	kind        string // the field "type"
	text        int64  // bytes of the text that the answer consists of
	choices     bool   // "choices" has an item or a field
	failed      bool   // "error" has a value
}

// isUsageChunk reports whether the text is the chunk of OpenAI's streams that
// holds the usage and nothing else. Some servers leave its choices out.
func (f *found) isUsageChunk() bool {
	return f.usage != nil && f.usageParent == "" && !f.choices && !f.failed
}

const (
	tracked  = 8       // depths with names; deeper values are skipped
	maxUsage = 1 << 14 // bytes of a usage object
)

// names lists the fields that the scanner looks at. The value is true for the
// fields that hold text of the answer.
var names = map[string]bool{
	"usage": false, "message": false, "response": false, "choices": false, "type": false, "error": false,
	"output": false, "input": false,
	"delta": true, "content": true, "text": true, "refusal": true, "reasoning": true, "reasoning_content": true,
	"arguments": true, "partial_json": true, "thinking": true,
}

// knownName returns a name of the list, or "" for any other.
func knownName(word []byte) string {
	if _, ok := names[string(word)]; !ok {
		return ""
	}
	return string(word)
}

// reset prepares the scanner for another text.
func (s *scanner) reset() {
	*s = scanner{word: s.word[:0], usage: nil}
}

// write scans the next part of the text.
func (s *scanner) write(p []byte) {
	for i := 0; i < len(p); i++ {
		// Most of an answer is strings that nothing is kept of. They are
		// skipped in one step.
		if s.inString && !s.keep && s.usageAt == 0 && !s.escaped {
			n := plainLength(p[i:])
			if s.counted {
				s.found.text += int64(n)
			}
			if i += n; i == len(p) {
				return
			}
		}

		c := p[i]
		if s.usageAt > 0 {
			s.capture(c)
		}

		if s.inString {
			s.stringByte(c)
			continue
		}
		s.structure(c)
	}
}

// plainLength returns the number of bytes before the end of a string or an escape.
func plainLength(p []byte) int {
	for i, c := range p {
		if c == '"' || c == '\\' {
			return i
		}
	}
	return len(p)
}

// capture appends a byte to the object being captured.
func (s *scanner) capture(c byte) {
	if len(s.usage) < maxUsage {
		s.usage = append(s.usage, c)
	} else {
		s.overflow = true
	}
}

func (s *scanner) stringByte(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.endString()
		return
	}

	if s.counted {
		s.found.text++
	}
	if s.keep && len(s.word) < maxWord {
		s.word = append(s.word, c)
	}
}

func (s *scanner) structure(c byte) {
	switch c {
	case ' ', '\n', '\r', '\t':
		return
	}

	s.begun = true
	switch c {
	case '"':
		s.noteValue()
		s.beginString()
	case '{', '[':
		s.noteValue()
		s.open(c)
	case '}', ']':
		s.close()
	case ',':
		s.setKey(true)
	case ':':
		s.setKey(false)
	}
}

// noteValue notes that a string, an object or a list begins, if it belongs to
// "choices" or is the value of "error".
func (s *scanner) noteValue() {
	switch {
	case s.depth == 2 && s.path[1] == "choices":
		s.found.choices = true
	case s.depth == 1 && !s.isKey[1] && s.path[1] == "error":
		s.found.failed = true
	}
}

// ended reports whether the text holds a whole value.
func (s *scanner) ended() bool { return s.begun && s.depth == 0 && !s.inString }

// setKey notes whether the next string at this depth is a name.
func (s *scanner) setKey(is bool) {
	if s.depth < tracked {
		s.isKey[s.depth] = is && !s.isList[s.depth]
	}
}

func (s *scanner) open(c byte) {
	parent, wanted := s.usageParent()
	// A list named "usage" is none.
	if c == '{' && wanted {
		s.usage, s.usageAt, s.overflow = append([]byte(nil), c), s.depth+1, false
		s.found.usageParent = parent
	}

	s.depth++
	if s.depth < tracked {
		s.isList[s.depth], s.isKey[s.depth] = c == '[', c == '{'
		s.path[s.depth] = ""
		if c == '[' {
			s.path[s.depth] = s.path[s.depth-1] // items belong to the field of their list
		}
	}
}

// usageParent reports whether the value that begins here is a usage object.
func (s *scanner) usageParent() (string, bool) {
	switch {
	case s.usageAt > 0:
		return "", false
	case s.depth == 1 && s.path[1] == "usage":
		return "", true
	case s.depth == 2 && s.path[2] == "usage" && (s.path[1] == "message" || s.path[1] == "response"):
		return s.path[1], true
	}
	return "", false
}

func (s *scanner) close() {
	if s.usageAt > 0 && s.depth == s.usageAt {
		if !s.overflow {
			s.found.usage = s.usage
		}
		s.usage, s.usageAt = nil, 0
	}
	s.depth = max(0, s.depth-1)
}

func (s *scanner) beginString() {
	s.inString, s.escaped, s.keep, s.counted = true, false, false, false
	if s.depth >= tracked {
		return
	}

	isName := s.isKey[s.depth]
	s.keep = isName || s.depth == 1 && s.path[1] == "type"
	s.counted = !isName && s.isText()
	s.word = s.word[:0]
}

// isText reports whether the current value is text of the answer. Streams have it
// in "delta", or in the choices of completions. Bodies have it in "choices",
// "output" or "content", where "input" holds the arguments of a tool. Other events
// repeat what came before.
func (s *scanner) isText() bool {
	path := s.path[1 : s.depth+1]
	if len(path) == 0 {
		return false
	}

	// The arguments of a tool have names that the tool invents, so all their
	// strings count.
	if path[0] == "content" && slices.Contains(path, "input") {
		return true
	}

	inAnswer := path[0] == "choices" || path[0] == "output" || path[0] == "content" || slices.Contains(path, "delta")
	return inAnswer && names[path[len(path)-1]]
}

func (s *scanner) endString() {
	s.inString, s.counted = false, false
	if !s.keep {
		return
	}
	s.keep = false

	if s.isKey[s.depth] {
		s.path[s.depth] = knownName(s.word)
		return
	}
	s.found.kind = string(s.word)
}
