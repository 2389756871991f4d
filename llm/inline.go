package llm

import (
	"bytes"
	"slices"
)

// inline collects the images and files that a body contains. Their size does not
// bound their tokens: an image of one colour has few bytes, and a file is
// compressed.
type inline struct {
	images     int64
	imageBytes int64
	file       string // the first field that holds a file

	// Messages has images and documents in the same field.
	data, dataBytes int64
	document        bool // a block may be a document
}

// add notes a string of a prompt, given without its quotes. It reports whether the
// string is an image or a file.
func (i *inline) add(w *walk, f Format, quoted []byte) bool {
	if w.field == fieldType && isWord(quoted, "document") {
		i.document = true
	}

	if len(quoted) == 0 || f == Messages && w.inArguments() {
		return false
	}

	media, isData := mediaOf(quoted)
	size := int64(0)
	if isBinary(w.field, quoted) {
		size = int64(len(quoted))
	}

	switch parent := w.parent(); {
	// The bytes of a file bound nothing, in whatever form they are.
	case w.field == fieldFileData:
		i.noteFile("file_data")
	// Messages has plain text in the same field too, whose bytes bound its
	// tokens.
	case w.field == fieldData && parent == fieldMedia && (f != Messages || size > 0):
		i.data, i.dataBytes = i.data+1, i.dataBytes+size
	// A URL that is no data URL refers to input elsewhere, which walk.refers
	// notes.
	case !isData:
		return false
	case w.field == fieldFileURL:
		i.noteFile("file_url")
	case w.field == fieldMedia, w.field == fieldURL && parent == fieldMedia:
		i.noteFile("url")
	case w.field == fieldImageURL || w.field == fieldURL && parent == fieldImageURL:
		if !isImage(media) {
			i.noteFile("image_url")
			return true
		}
		i.images, i.imageBytes = i.images+1, i.imageBytes+size
	default:
		return false
	}
	return true
}

// end decides what the data of the format are. A block of Messages holds an image,
// unless it is a document. Elsewhere such data are sound.
func (i *inline) end(f Format) {
	if i.data == 0 {
		return
	}

	// One block that may be a document makes all of them files, since blocks
	// are not distinguished.
	if f != Messages || i.document {
		i.noteFile("data")
		return
	}

	i.images, i.imageBytes = i.images+i.data, i.imageBytes+i.dataBytes
}

func (i *inline) noteFile(name string) {
	if i.file == "" {
		i.file = name
	}
}

// inArguments reports whether the current value is an argument of a tool, which the
// API does not follow.
func (w *walk) inArguments() bool {
	return slices.Contains(w.parents[:min(w.depth, trackedDepth)], fieldInput)
}

// mediaOf returns the media type of a data URL, with what follows it, and reports
// whether quoted is one.
func mediaOf(quoted []byte) (media []byte, isData bool) {
	const scheme = "data:"
	if len(quoted) < len(scheme) || !bytes.EqualFold(quoted[:len(scheme)], []byte(scheme)) {
		return nil, false
	}
	return quoted[len(scheme):], true
}

func isImage(media []byte) bool {
	const kind = "image/"
	return len(media) >= len(kind) && bytes.EqualFold(media[:len(kind)], []byte(kind))
}
