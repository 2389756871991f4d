package llm

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// referenceFields lists the fields of a request that refer to input outside of its
// body, or make more of what is in it.
var referenceFields = map[Format][]string{
	// Some of these fields are Azure's or OpenRouter's.
	Chat:      {"web_search_options", "data_sources", "plugins", "prompt", "conversation"},
	Responses: {"conversation", "prompt"},
	Messages:  {"container", "prompt", "conversation"},
}

// sharedReferences lists fields that servers of any of the formats may know: the
// searches of xAI, Qwen and Groq, the presets of OpenRouter, the sources and the
// conversations of Cohere, the prompts of LiteLLM, what servers keep under an ID, and
// what vLLM builds a prompt with.
var sharedReferences = []string{
	"search_parameters", "search_options", "search_settings", "enable_search", "web_search", "preset", "connectors",
	"conversation_id", "thread_id", "assistant_id", "agent_id", "knowledge_base_id", "chat_template", "template",
	"mm_processor_kwargs", "prompt_embeds", "previous_response_id", "prompt_id", "vector_store_ids", "tool_resources",
	"mcp_servers", "context_id", "session_id",
}

// otherModels lists the fields by which a gateway may run the call on another model
// than the body names, such as OpenRouter's and LiteLLM's fallbacks.
var otherModels = []string{"models", "route", "fallbacks"}

// checkModels rejects a request that may run on a model whose price is not looked
// at, or whose fields a gateway replaces by those of "extra_body".
func (o object) checkModels() error {
	for _, name := range otherModels {
		if o.raw(name) != nil {
			return &limiter.InvalidError{
				Field: name, Reason: "may run the call on another model, at another price; send one model",
			}
		}
	}

	raw := o.raw("extra_body")
	if raw == nil {
		return nil
	}
	extra, err := parseObject(raw)
	if err != nil {
		return wrongType("extra_body", raw, "an object without repeated fields")
	}
	for name := range extra.fields {
		// Gemini's API has settings of its own there.
		if name != "google" {
			return &limiter.InvalidError{
				Field: "extra_body", Reason: "may change the call; send its fields beside the others",
			}
		}
	}
	return nil
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
	fieldMedia  // an object with a url or data, or one of these itself
	fieldSource // the same, or text
	fieldAudio
	fieldImage    // the content of an image or a video, or where it is
	fieldCached   // a part of a prompt that the API keeps
	fieldDocument // a URL of a document
	fieldUUID     // an image that the server has
	fieldInput    // the arguments of a tool, in Messages
	fieldBytes    // data of an image or a file, in whatever format
	fieldMime     // a media type
	fieldDeep     // any of these, deeper than names are known
	fieldID
	fieldType
	fieldRole
)

// isFile reports whether an object in a field holds the data or the URL of a file.
func (f field) isFile() bool { return f == fieldMedia || f == fieldSource || f == fieldDeep }

// isMedia reports whether an object in a field may hold the data of a file, a sound or
// an image.
func (f field) isMedia() bool {
	switch f {
	case fieldData, fieldBytes, fieldFileData, fieldFileURL, fieldImageURL, fieldAudio, fieldImage, fieldDocument:
		return true
	}
	return f.isFile()
}

// promptNames has the names without "_" and "-", since Google's API knows file_uri
// and fileUri.
var promptNames = map[string]field{
	"data": fieldData, "filedata": fieldFileData, "fileid": fieldFileID, "fileids": fieldFileID,
	"fileurl": fieldFileURL, "fileuri": fieldFileURL, "url": fieldURL, "uri": fieldURL, "imageurl": fieldImageURL,
	"videourl": fieldMedia, "audiourl": fieldMedia, "file": fieldMedia, "files": fieldMedia, "pdf": fieldMedia,
	"inputaudio": fieldMedia, "inlinedata": fieldMedia, "media": fieldMedia, "source": fieldSource,
	"document": fieldSource, "documents": fieldSource, "audio": fieldAudio, "input": fieldInput,
	"bytes": fieldBytes, "blob": fieldBytes, "base64": fieldBytes, "b64json": fieldBytes,
	"mediatype": fieldMime, "mimetype": fieldMime, "imagedata": fieldImage, "multimodaldata": fieldImage,
	"promptembeds": fieldImage, "image": fieldImage, "images": fieldImage, "inputimage": fieldImage,
	"video": fieldImage, "videos": fieldImage, "inputvideo": fieldImage,
	"imageembeds": fieldImage, "audioembeds": fieldImage, "videoembeds": fieldImage,
	"audios": fieldImage, "cachedcontent": fieldCached, "documenturl": fieldDocument, "uuid": fieldUUID,
	"id": fieldID, "type": fieldType, "role": fieldRole,
}

// fieldOf returns the meaning of a name in JSON. It ignores case, as some APIs do.
func fieldOf(quoted []byte) field {
	const longest = 24 // bytes of a name with its "_" and "-"
	if len(quoted) > longest*len(`\u0000`) {
		return fieldOther
	}

	var room [longest * 6]byte
	name, _ := unquote(room[:0], quoted)
	if len(name) > longest {
		return fieldOther
	}
	// The API does not follow arguments, so that no other name may pass for them.
	isInput := string(name) == "input"
	folded := name[:0]
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			folded = append(folded, c|0x20)
		// Some parsers end a name here.
		case c < ' ' || c == 0x7f:
			i = len(name)
		case c == '_' || c == '-':
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

	f := promptNames[string(folded)]
	if f == fieldInput && !isInput {
		return fieldOther
	}
	return f
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

// run calls visit for each name (':') and each other string ('"'), both without
// their quotes, each number ('0', as written), and each begin ('{') and each end ('}')
// of a list or an object of valid JSON.
func (w *walk) run(raw []byte, visit func(what byte, quoted []byte)) {
	for at := 0; at < len(raw); {
		switch c := raw[at]; {
		case c == '"':
			end := skipString(raw, at)
			next := skipSpace(raw, end)
			// A string in front of a colon is a name.
			if quoted := raw[at+1 : end-1]; next < len(raw) && raw[next] == ':' {
				w.field = fieldOf(quoted)
				visit(':', quoted)
			} else {
				visit('"', quoted)
			}
			at = end
		case c == '{' || c == '[':
			w.open()
			visit('{', nil)
			at++
		case c == '}' || c == ']':
			w.close()
			visit('}', nil)
			at++
		case c == '-' || c >= '0' && c <= '9':
			end := skipWord(raw, at)
			visit('0', raw[at:end])
			at = end
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
	switch {
	case w.depth == 0:
		return fieldOther
	case w.depth > trackedDepth:
		return fieldDeep
	}
	return w.parents[w.depth-1]
}

// refers returns the name of the field that refers to input outside of the body
// with a string, given without its quotes, which may be a data URL, or "".
func (w *walk) refers(f Format, quoted []byte, isData bool) string {
	switch parent := w.parent(); {
	case w.field == fieldFileID:
		return "file_id"
	case w.field == fieldFileURL && !isData:
		return "file_url"
	case w.field == fieldImage, w.field == fieldURL && parent == fieldImage:
		return "image"
	case w.field == fieldCached:
		return "cached_content"
	case w.field == fieldDocument:
		return "document_url"
	case w.field == fieldUUID:
		return "uuid"
	case (w.field == fieldMedia || w.field == fieldSource) && !isData && isAddress(quoted):
		return "url"
	case w.field == fieldImageURL && !isData, w.field == fieldURL && parent == fieldImageURL && !isData:
		return "image_url"
	case w.field == fieldURL && parent.isFile() && !isData:
		return "url"
	case w.field == fieldID && parent == fieldAudio, w.field == fieldURL && parent == fieldAudio,
		w.field == fieldData && parent == fieldAudio, w.field == fieldAudio:
		return "audio"
	case w.field == fieldType && f == Responses && isWord(quoted, "item_reference"):
		return "item_reference"
	}
	return ""
}

// isAddress reports whether a string, given without its quotes, begins as a URL
// does.
func isAddress(quoted []byte) bool {
	start := beginning(make([]byte, 0, maxScheme), quoted)
	scheme, _, found := bytes.Cut(start, []byte(":"))
	return bytes.HasPrefix(start, []byte("//")) || found && len(scheme) > 0 && bytes.IndexByte(scheme, ' ') < 0
}

const maxScheme = 40 // bytes of a URL in which its colon is

// clientTools lists the types of tools that the client runs. Others bring input
// into a call that the request does not contain, such as the result of a search.
var clientTools = map[Format][]string{
	Chat:      {"function", "custom"},
	Responses: {"function", "custom", "local_shell", "apply_patch", "computer_use_preview"},
	Messages:  {"custom", "bash_*", "text_editor_*", "computer_*", "memory_*"},
}

// toolFields lists the fields that a tool of the client may have. Gateways take any
// other one, such as googleSearch, for a tool of the API, also beside a function.
var toolFields = map[string]bool{
	"type": true, "function": true, "custom": true, "name": true, "description": true, "parameters": true,
	"strict": true, "format": true, "input_schema": true, "output_schema": true, "cache_control": true,
	"display_width": true, "display_height": true, "environment": true, "input_examples": true,
	"defer_loading": true, "allowed_callers": true, "eager_input_streaming": true,
}

// hasHostedTool reports whether one of the tools runs at the API.
func hasHostedTool(f Format, tools []byte) (hosted bool) {
	if len(tools) == 0 {
		return false
	}
	// Some server may take one tool for a list of it, or a name for a tool.
	hosted = tools[0] != '['

	var w walk
	named, function := false, false // the current tool has a field, and one of a function
	w.run(tools, func(what byte, quoted []byte) {
		if w.depth > itemDepth {
			return
		}
		switch {
		case what == ':':
			var room [maxWritten]byte
			name := word(&room, quoted)
			named = true
			function = function || w.field == fieldType || string(name) == "function" || string(name) == "name"
			// Messages has no tool that another field stands for.
			hosted = hosted || f != Messages && !toolFields[string(name)]
		case what == '"' && (w.depth < itemDepth || w.field == fieldType):
			hosted = hosted || !isClientTool(f, quoted)
		case what == '}' && w.depth == itemDepth-1:
			hosted = hosted || named && !function && f != Messages
			named, function = false, false
		}
	})
	return hosted
}

// Tokens that an API adds to a prompt for tools. Anthropic bills 346 for any tool,
// and at most 735 more for each of its own that the client runs; OpenAI adds a few
// to each function, which has more bytes than that.
const (
	anyToolTokens = 500
	ownToolTokens = 1000
)

// toolTokens returns the tokens that an API adds to a prompt for a list of tools.
func toolTokens(tools []byte) int64 {
	if len(tools) == 0 || tools[0] != '[' && tools[0] != '{' {
		return 0
	}
	// An empty list or object is none.
	if c := tools[skipSpace(tools, 1)]; c == ']' || c == '}' {
		return 0
	}

	tokens := int64(anyToolTokens)
	var w walk
	w.run(tools, func(what byte, kind []byte) {
		if what == '"' && w.depth == itemDepth && w.field == fieldType && !isWord(kind, "function") &&
			!isWord(kind, "custom") {
			tokens += ownToolTokens
		}
	})
	return tokens
}

func isClientTool(f Format, quoted []byte) bool {
	var room [maxWritten]byte
	kind := word(&room, quoted)
	return slices.ContainsFunc(clientTools[f], func(known string) bool {
		start, open := strings.CutSuffix(known, "*")
		return string(kind) == known || open && bytes.HasPrefix(kind, []byte(start))
	})
}
