package llm

// itemContents lists the types of items in the input of Responses that can bring
// all that they mean, with the field that has it. An item of another type is what
// the API knows by its ID: the result of a search, an image that it made, a state.
var itemContents = map[string]string{
	"message":                 "content",
	"function_call":           "arguments",
	"function_call_output":    "output",
	"custom_tool_call":        "input",
	"custom_tool_call_output": "output",
	"computer_call":           "action",
	"computer_call_output":    "output",
	"local_shell_call":        "action",
	"local_shell_call_output": "output",
	"shell_call":              "action",
	"shell_call_output":       "output",
	"apply_patch_call":        "operation",
	"apply_patch_call_output": "output",
	"reasoning":               "encrypted_content",
}

// contentFields lists the fields of itemContents. An item refers to them by their
// positions.
var contentFields = [...]string{
	"content", "arguments", "output", "input", "action", "operation", "encrypted_content",
}

// item collects the fields by which the API may resolve an item in the input of
// Responses to what it has under an ID.
type item struct {
	depth        int    // inside of an item
	id           bool   // the item has an ID
	content      string // the field that its type needs, "" if the type is not known
	typed, role  bool   // the item has such a string
	types, roles int    // fields of these names
	exact        bool   // the current name is spelled as the API does
	current      int    // position of the current field in contentFields, or -1
	fields       [len(contentFields)]struct {
		names  int  // fields of this name
		filled bool // one of them has text
	}
}

// newItem returns the first item of a field. Some server may take one item for a list
// of it.
func newItem(raw []byte) item {
	i := item{depth: itemDepth, current: -1}
	if len(raw) > 0 && raw[0] == '{' {
		i.depth--
	}
	return i
}

// note notes a name, a string or a number of the input.
func (i *item) note(w *walk, what byte, quoted []byte) {
	switch {
	case w.depth < i.depth:
	case what == ':' && w.depth == i.depth:
		i.noteName(w, quoted)
	case what == ':' || what == '{' || what == '}':
	case i.current >= 0 && len(quoted) > 0:
		i.fields[i.current].filled = true
	case w.depth > i.depth:
	case w.field == fieldID:
		i.id = i.id || len(quoted) > 0
	case what == '"' && w.field == fieldRole:
		i.role = i.role || i.exact
	case what == '"' && w.field == fieldType:
		var room [maxWritten]byte
		i.typed, i.content = true, ""
		if i.exact {
			i.content = itemContents[string(word(&room, quoted))]
		}
	}
}

// noteName notes the name of a field of the item.
func (i *item) noteName(w *walk, quoted []byte) {
	i.current, i.exact = -1, false
	switch w.field {
	case fieldType:
		i.types, i.exact = i.types+1, isWord(quoted, "type")
		return
	case fieldRole:
		i.roles, i.exact = i.roles+1, isWord(quoted, "role")
		return
	case fieldID:
		return
	}

	var room [maxWritten]byte
	name := word(&room, quoted)
	for at, known := range contentFields {
		if string(name) == known {
			i.current = at
			i.fields[at].names++
		}
	}
}

// ends returns the field by which the object that was just closed refers to an item
// of the API, for some parser, or "", and prepares for the next one.
func (i *item) ends(w *walk) string {
	if w.depth != i.depth-1 {
		return ""
	}
	name := ""
	if i.refers() {
		if name = "type"; i.id {
			name = "id"
		}
	}
	*i = item{depth: i.depth, current: -1}
	return name
}

// refers reports whether the item may be one that the API resolves: its type is not
// known to bring all that it means, or it has an ID and nothing else that it means.
func (i *item) refers() bool {
	content := i.content
	switch {
	// A parser keeps the first or the last of two equal names.
	case i.types > 1 || i.typed && content == "":
		return true
	case !i.id:
		return false
	case i.roles > 1 || !i.typed && !i.role:
		return true
	case !i.typed:
		content = itemContents["message"]
	}

	for at, name := range contentFields {
		if name == content {
			return i.fields[at].names != 1 || !i.fields[at].filled
		}
	}
	return true
}
