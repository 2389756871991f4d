package llm

import (
	"bytes"
	"slices"
	"strings"
)

// referenceFields lists the fields of a request that refer to input outside of its
// body.
var referenceFields = map[Format][]string{
	// Some of these fields are Azure's or OpenRouter's.
	Chat:      {"web_search_options", "data_sources", "plugins"},
	Responses: {"previous_response_id", "conversation", "prompt"},
	Messages:  {"container", "mcp_servers"},
}

// refer notes a field that refers to input outside of the body.
func (p *prompt) refer(name string) {
	if p.reference == "" {
		p.reference = name
	}
}

// field is a name in a prompt that decides about the meaning of its value.
type field uint8

const (
	fieldOther field = iota
	fieldData
	fieldFileData
	fieldFileID
	fieldFileURL
	fieldURL
	fieldImageURL
	fieldMedia // an object with a url
	fieldAudio
	fieldInput // the arguments of a tool, in Messages
	fieldID
	fieldType
	fieldRole
)

var promptNames = map[string]field{
	"data": fieldData, "file_data": fieldFileData, "file_id": fieldFileID, "file_ids": fieldFileID,
	"file_url": fieldFileURL, "url": fieldURL, "image_url": fieldImageURL,
	"video_url": fieldMedia, "audio_url": fieldMedia, "source": fieldMedia, "file": fieldMedia,
	"input_audio": fieldMedia, "audio": fieldAudio, "input": fieldInput,
	"id": fieldID, "type": fieldType, "role": fieldRole,
}

// fieldOf returns the meaning of a name in JSON. It ignores case, as some APIs do.
func fieldOf(quoted []byte) field {
	const longest = 16
	if len(quoted) > longest*len(`\u0000`) {
		return fieldOther
	}

	var room [longest * 6]byte
	name, _ := unquote(room[:0], quoted)
	folded := name[:0]
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			folded = append(folded, c|0x20)
		// The long s and the sign of Kelvin fold to ASCII too. They have two
		// bytes and three.
		case bytes.HasPrefix(name[i:], []byte("\u017f")):
			folded, i = append(folded, 's'), i+1
		case bytes.HasPrefix(name[i:], []byte("\u212a")):
			folded, i = append(folded, 'k'), i+2
		default:
			folded = append(folded, c)
		}
	}

	return promptNames[string(folded)]
}

// walk knows where in a value of JSON a string is.
type walk struct {
	depth   int
	field   field               // of the current value
	parents [trackedDepth]field // of the open lists and objects
}

const (
	trackedDepth = 64 // depths with names; no format has deeper ones
	itemDepth    = 2  // inside of an object in a list
)

// run calls visit for each name (':') and each other string ('"', without its
// quotes), each number ('0') and each end of a list or an object ('}') of valid
// JSON.
func (w *walk) run(raw []byte, visit func(what byte, quoted []byte)) {
	for at := 0; at < len(raw); {
		switch c := raw[at]; {
		case c == '"':
			end := skipString(raw, at)
			next := skipSpace(raw, end)
			// A string in front of a colon is a name.
			if quoted := raw[at+1 : end-1]; next < len(raw) && raw[next] == ':' {
				w.field = fieldOf(quoted)
				visit(':', nil)
			} else {
				visit('"', quoted)
			}
			at = end
		case c == '{' || c == '[':
			w.open()
			at++
		case c == '}' || c == ']':
			w.close()
			visit('}', nil)
			at++
		case c == '-' || c >= '0' && c <= '9':
			visit('0', nil)
			at = skipWord(raw, at)
		default:
			at++
		}
	}
}

// open begins a list or an object.
func (w *walk) open() {
	if w.depth < trackedDepth {
		w.parents[w.depth] = w.field
	}
	w.depth++
}

// close ends a list or an object. The next element of a list belongs to the field
// of the list.
func (w *walk) close() {
	w.depth--
	if w.field = fieldOther; w.depth < trackedDepth {
		w.field = w.parents[w.depth]
	}
}

// parent returns the field that holds the object of the current value.
func (w *walk) parent() field {
	if w.depth == 0 || w.depth > trackedDepth {
		return fieldOther
	}
	return w.parents[w.depth-1]
}

// refers returns the name of the field that refers to input outside of the body
// with the value text, or "".
func (w *walk) refers(f Format, quoted []byte) string {
	_, isData := mediaOf(quoted)

	name := ""
	switch parent := w.parent(); {
	case len(quoted) == 0:
	case w.field == fieldFileID:
		name = "file_id"
	case w.field == fieldFileURL && !isData:
		name = "file_url"
	case w.field == fieldImageURL && !isData, w.field == fieldURL && parent == fieldImageURL && !isData:
		name = "image_url"
	case w.field == fieldURL && parent == fieldMedia && !isData:
		name = "url"
	case w.field == fieldID && parent == fieldAudio:
		name = "audio"
	case w.field == fieldType && f == Responses && isWord(quoted, "item_reference"):
		name = "item_reference"
	}

	// Such an object is data for the tool. The API reads no file or image that
	// it names.
	if name != "" && f == Messages && w.inArguments() {
		return ""
	}
	return name
}

// isWord reports whether a string, given without its quotes, is a word.
func isWord(quoted []byte, word string) bool {
	if len(quoted) > len(word)*len(`\u0000`) {
		return false
	}
	text, _ := unquote(nil, quoted)
	return string(text) == word
}

// item collects the fields by which Responses recognizes a reference to an earlier
// item in its input: it has an ID, and neither a type nor a role.
type item struct {
	id, typed    bool // the item has such a string
	types, roles int  // fields of these names
}

// note notes a name or a string of the input.
func (i *item) note(w *walk, what byte) {
	switch {
	case w.depth != itemDepth:
	case what == ':' && w.field == fieldType:
		i.types++
	case what == ':' && w.field == fieldRole:
		i.roles++
	case what == '"' && w.field == fieldID:
		i.id = true
	case what == '"' && (w.field == fieldType || w.field == fieldRole):
		i.typed = true
	}
}

// ends reports whether the object that was just closed is such a reference, for
// some parser, and prepares for the next one.
func (i *item) ends(w *walk) bool {
	if w.depth != itemDepth-1 {
		return false
	}
	// Parsers keep the first or the last of two equal names, so that one of
	// them may see no type.
	refers := i.id && (!i.typed || i.types > 1 || i.roles > 1)
	*i = item{}
	return refers
}

// clientTools lists the types of tools that the client runs. Others bring input
// into a call that the request does not contain, such as the result of a search.
var clientTools = map[Format][]string{
	Chat:      {"function", "custom"},
	Responses: {"function", "custom", "local_shell", "apply_patch", "computer_use_preview"},
	Messages:  {"custom", "bash_*", "text_editor_*", "computer_*", "memory_*"},
}

// hasHostedTool reports whether one of the tools runs at the API.
func hasHostedTool(f Format, tools []byte) (hosted bool) {
	var w walk
	w.run(tools, func(what byte, kind []byte) {
		if what == '"' && w.depth == itemDepth && w.field == fieldType {
			hosted = hosted || !isClientTool(f, kind)
		}
	})
	return hosted
}

func isClientTool(f Format, kind []byte) bool {
	return slices.ContainsFunc(clientTools[f], func(known string) bool {
		start, open := strings.CutSuffix(known, "*")
		return string(kind) == known || open && bytes.HasPrefix(kind, []byte(start))
	})
}
