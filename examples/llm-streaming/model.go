package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// answer stands for a language model. It streams an essay of 1,250 tokens, or a
// haiku of 17, as OpenAI's chat completions do, and ends with the usage.
func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	tokens := 17
	if strings.Contains(string(body), "essay") {
		tokens = 1250
	}

	w.Header().Set("Content-Type", "text/event-stream")
	for range tokens {
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"word"}}]}`+"\n\n")
		// The client sees an answer that arrives word by word.
		_ = http.NewResponseController(w).Flush()
	}

	// As the API does, the model reports its usage only if the request asks for
	// it.
	if strings.Contains(string(body), `"include_usage":true`) {
		_, _ = fmt.Fprintf(w,
			`data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n",
			tokens, 8+tokens)
	}

	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
