package llm

import (
	"bytes"
	"unicode/utf8"
)

// inline collects the images and files that a body contains. Their size does not
// bound their tokens: an image of one colour has few bytes, and a file is
// compressed.
type inline struct {
	images     int64
	imageBytes int64
	file       string // the first field that holds a file
}

// addInline notes a string of a prompt, given without its quotes, which may be
// a data URL, and has size bytes of base64. It reports whether the string may
// be an image or a file, or a part of one: its place says so, never its letters.
func (p *prompt) addInline(w *walk, quoted []byte, isData, isImage bool, size int64) bool {
	switch parent := w.parent(); {
	// The bytes of a file bound nothing, in whatever form they are.
	case w.field == fieldFileData:
		p.noteFile("file_data")
	// The type of the object, which may come later, says whether this is text.
	case w.field == fieldData || w.field == fieldBytes:
		p.hold(w, quoted, size)
		return true
	// A URL that is no data URL refers to input elsewhere, which walk.refers
	// notes.
	case w.field == fieldMedia && !isAddress(quoted):
		p.noteFile("data")
	case !isData:
		return false
	case w.field == fieldFileURL:
		p.noteFile("file_url")
	case w.field == fieldMedia || w.field == fieldSource, w.field == fieldURL && parent.isFile():
		p.noteFile("url")
	case w.field == fieldImageURL || w.field == fieldURL && parent == fieldImageURL:
		if !isImage {
			p.noteFile("image_url")
			break
		}
		p.images, p.imageBytes = p.images+1, p.imageBytes+size
	default:
		return false
	}

	p.noteInside(w)
	return true
}

func (p *prompt) noteFile(name string) {
	if p.file == "" {
		p.file = name
	}
}

// argumentsDepth is the depth of a block of Messages: {"messages":[{"content":[{...}]}]}
// has the list, a message, its content and a block.
const argumentsDepth = 4

// inArguments reports whether the current value is inside the arguments of a tool,
// which the API does not follow.
func (p *prompt) inArguments(w *walk) bool {
	return p.arguments && w.depth > argumentsDepth && w.parents[argumentsDepth] == fieldInput
}

// isDataURL reports whether a string, given without its quotes, is a data URL, and
// whether it is one of an image.
func isDataURL(quoted []byte) (isData, isImage bool) {
	// Few strings begin so, or with an escape or a space that could hide it.
	if c := quoted[0]; c|0x20 != 'd' && c != '\\' && c > ' ' && c < utf8.RuneSelf {
		return false, false
	}
	const scheme, image = "data:", "data:image/"
	start := beginning(make([]byte, 0, 2*len(image)), quoted)
	begins := func(with string) bool {
		return len(start) >= len(with) && bytes.EqualFold(start[:len(with)], []byte(with))
	}
	return begins(scheme), begins(image)
}
