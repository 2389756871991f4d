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

	found   found
	choices choicesState
}

// found holds what the scanner has found in one text.
type found struct {
	usage        []byte // the object "usage", of the text itself or of its "message" or "response"
	usageParent  string // "", "message" or "response"
	kind         string // the field "type"
	text         int64  // bytes of the text that the answer consists of
	emptyChoices bool   // "choices" is an empty list
}

type choicesState int

const (
	choicesUnknown choicesState = iota
	choicesOpened
)

const (
	tracked  = 8       // depths with names; deeper values are skipped
	maxWord  = 64      // bytes of a name or a type
	maxUsage = 1 << 14 // bytes of a usage object
)

// names lists the fields that the scanner looks at. The value is true for the
// fields of a delta that hold text of the answer.
var names = map[string]bool{
	"usage": false, "message": false, "response": false, "choices": false, "type": false,
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
	case ']':
		s.found.emptyChoices = s.found.emptyChoices || s.choices == choicesOpened
	}
	s.choices = choicesUnknown
	switch c {
	case '"':
		s.beginString()
	case '{', '[':
		s.open(c)
	case '}', ']':
		s.close()
	case ',':
		s.setKey(true)
	case ':':
		s.setKey(false)
	}
}

// setKey notes whether the next string at this depth is a name.
func (s *scanner) setKey(is bool) {
	if s.depth < tracked {
		s.isKey[s.depth] = is && !s.isList[s.depth]
	}
}

func (s *scanner) open(c byte) {
	parent, wanted := s.usageParent()
	if c == '{' && wanted {
		s.usage, s.usageAt, s.overflow = append([]byte(nil), c), s.depth+1, false
		s.found.usageParent = parent
	}
	if c == '[' && s.depth == 1 && s.path[1] == "choices" {
		s.choices = choicesOpened
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
	s.counted = !isName && names[s.path[s.depth]] && s.inDelta()
	s.word = s.word[:0]
}

// inDelta reports whether the current value is part of a field "delta".
func (s *scanner) inDelta() bool {
	return slices.Contains(s.path[1:s.depth+1], "delta")
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
