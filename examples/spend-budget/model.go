package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// file refers to a file that the API keeps.
const file = `{"type":"file","file":{"file_id":"archive"}}`

// bodies holds what a client sends. A question sets no maximum for its answer. A
// report reads a file that the API keeps.
var bodies = map[string]string{
	"question": `{"model":%q,"messages":[{"role":"user","content":"question"}]}`,
	"report":   `{"model":%q,"max_tokens":800000,"messages":[{"role":"report","content":[` + file + `]}]}`,
	"again":    `{"model":%q,"max_tokens":800000,"messages":[{"role":"again","content":[` + file + `]}]}`,
}

// answer stands for the API of a language model. It caches what it has read before.
func answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct{ Role string }
	}

	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}

	usage := map[string]string{
		"user":   `"prompt_tokens":20,"completion_tokens":4000`,
		"report": `"prompt_tokens":2000000,"completion_tokens":600000`,
		"again": `"prompt_tokens":2000000,"completion_tokens":600000,` +
			`"prompt_tokens_details":{"cached_tokens":1900000}`,
	}[req.Messages[0].Role]

	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"..."}}],"usage":{%s}}`, usage)
}
