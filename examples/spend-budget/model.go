package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// longest holds the most tokens that a client asks for.
var longest = map[string]int{"question": 5_000, "report": 800_000, "again": 800_000}

// answer stands for the API of a language model. It reads much, and caches what it
// has read before.
func answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	usage := map[string]string{
		"question": `"prompt_tokens":20000,"completion_tokens":4000`,
		"report":   `"prompt_tokens":2000000,"completion_tokens":600000`,
		"again":    `"prompt_tokens":2000000,"completion_tokens":600000,"prompt_tokens_details":{"cached_tokens":1900000}`,
	}[req.Messages[0].Content]
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"..."}}],"usage":{%s}}`, usage)
}
