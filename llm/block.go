package llm

// block collects what decides about the meaning of one object of a prompt: what its
// type says, and the data in it. An object is judged at its end, since its fields
// have any order.
type block struct {
	kind  kind
	typed bool // the object has a type
	mixed bool // and another one, or one in another spelling
	media bool // a type names an image, a sound, a video or a file
	mime  bool // the object has a media type other than plain text
	url   bool // the object has a URL
	// noted reports whether an image, a file, a reference or a plain document is
	// inside, which the limiter has counted.
	noted bool

	data []byte // the data of the object as written, while it may be text
	size int64  // bytes of the data, if they are base64

	// sources counts the data of the sources in the block of Messages that this
	// object is.
	sources, sourceBytes int64
}

// kind is what the type of an object says about its data.
type kind uint8

const (
	kindOther   kind = iota
	kindText         // plain text
	kindContent      // a list of blocks, or text
	kindImage
	kindSecret // text that only the API can read
)

// kindOf returns the kind of a type.
func kindOf(text []byte) kind {
	switch string(text) {
	case "text":
		return kindText
	case "content":
		return kindContent
	case "image":
		return kindImage
	case "redacted_thinking", "reasoning.encrypted":
		return kindSecret
	}
	return kindOther
}

// is reports whether the object has a kind for every parser: one type, spelled as
// the formats do.
func (b *block) is(k kind) bool { return b.typed && !b.mixed && b.kind == k }

// mediaWords lists words of types whose objects hold something other than text.
var mediaWords = map[string]bool{
	"image": true, "images": true, "audio": true, "sound": true, "video": true, "file": true, "document": true,
	"pdf": true, "media": true,
}

// isMediaType reports whether a type has a word for something other than text, as
// "input_image" and "videoUrl" have.
func isMediaType(text []byte) bool {
	var room [maxWord]byte
	part := room[:0]
	for i, c := range text {
		begins := isUpper(c) && i > 0 && isLower(text[i-1])
		if isLetter := joins(c); begins || !isLetter {
			if mediaWords[string(part)] {
				return true
			}
			if part = part[:0]; !isLetter {
				continue
			}
		}
		part = append(part, c|0x20)
	}
	return mediaWords[string(part)]
}

// blockAt returns the block at a depth, or nil if it is too deep.
func (p *prompt) blockAt(depth int) *block {
	if depth < 0 || depth >= trackedDepth {
		return nil
	}
	return &p.blocks[depth]
}

// noteBlock notes a name, a string, or the begin or the end of an object of a
// prompt. Strings of images and files have size bytes of base64.
func (p *prompt) noteBlock(w *walk, what byte, quoted []byte) {
	switch what {
	case '{':
		if b := p.blockAt(w.depth - 1); b != nil {
			*b = block{}
		}
		return
	case '}':
		p.endBlock(w)
		return
	}

	b := p.blockAt(w.depth - 1)
	if b == nil || w.field == fieldOther || p.inArguments(w) {
		return
	}

	switch {
	case what == ':' && w.field == fieldType:
		// An API that is strict about names does not see the other spelling.
		b.mixed = b.typed || !isWord(quoted, "type")
		b.typed = true
	case what != '"':
	case w.field == fieldType:
		var room [maxWritten]byte
		text := word(&room, quoted)
		b.kind, b.media = kindOf(text), b.media || isMediaType(text)
	case w.field == fieldMime:
		b.mime = b.mime || !isWord(quoted, "text/plain")
	case w.field == fieldURL:
		b.url = b.url || len(quoted) > 0
	}
}

// noteInside notes that the current value is counted.
func (p *prompt) noteInside(w *walk) {
	if b := p.blockAt(w.depth - 1); b != nil {
		b.noted = true
	}
}

// hold notes the data of an object until its end, with the bytes of its base64.
func (p *prompt) hold(w *walk, quoted []byte, size int64) {
	b := p.blockAt(w.depth - 1)
	// Nothing decides about data that are too deep, or are there twice.
	if b == nil || b.data != nil {
		p.noteFile("data")
		return
	}
	b.data, b.size = quoted, size
}

// endBlock decides what an object or a list that has just ended is.
func (p *prompt) endBlock(w *walk) {
	b, outer := p.blockAt(w.depth), p.blockAt(w.depth-1)
	if b == nil {
		return
	}

	switch {
	case b.data == nil:
	case p.isText(b, w.field):
		p.excess += excessOf(b.data, true)
	// The block around a source says what the data are.
	case p.format == Messages && w.field == fieldSource && outer != nil:
		outer.sources, outer.sourceBytes = outer.sources+1, outer.sourceBytes+b.size
	default:
		b.noted = true
		p.noteFile("data")
	}

	// An image is an image by the type of its block. Any other block may be a
	// document.
	switch {
	case b.sources == 0:
	case b.is(kindImage):
		b.noted = true
		p.images, p.imageBytes = p.images+b.sources, p.imageBytes+b.sourceBytes
	default:
		b.noted = true
		p.noteFile("data")
	}

	// What else a block of such a type has is not text, as far as the limiter
	// knows. Other fields have types of other things.
	if p.own && b.media {
		if b.url {
			p.refer("url")
		} else if !b.noted {
			p.noteFile("type")
		}
	}

	if outer == nil {
		return
	}
	plain := p.format == Messages && w.field == fieldSource && (b.is(kindText) || b.is(kindContent))
	outer.noted = outer.noted || b.noted || plain
}

// isText reports whether the data of an object are provably plain text, in a
// container with a field. Only the type says so: every text could be base64, and an
// API ignores spaces in it.
func (p *prompt) isText(b *block, container field) bool {
	switch {
	case !container.isMedia():
		return !b.typed && !b.mime || b.is(kindText) || b.is(kindSecret)
	case p.format == Messages:
		return b.is(kindText) && !b.mime
	}
	return false
}
