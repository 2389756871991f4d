package llm

import "strings"

// Format is the form of a request and its answer.
type Format string

// Formats of requests. All but [Messages] are OpenAI's.
const (
	Chat        Format = "chat"        // POST /v1/chat/completions
	Completions Format = "completions" // POST /v1/completions
	Responses   Format = "responses"   // POST /v1/responses
	Embeddings  Format = "embeddings"  // POST /v1/embeddings
	Messages    Format = "messages"    // POST /v1/messages, of Anthropic
)

// endings lists the ends of paths. A longer one comes before its own end.
var endings = []struct {
	path   string
	format Format
}{
	{"/chat/completions", Chat},
	{"/completions", Completions},
	{"/responses", Responses},
	{"/embeddings", Embeddings},
	{"/messages", Messages},
}

// FormatOf returns the format of requests that are posted to a path, by the end
// of the path. It ignores case and a trailing slash. It returns false for other
// paths.
func FormatOf(path string) (Format, bool) {
	path = strings.ToLower(strings.TrimRight(path, "/"))
	for _, e := range endings {
		if strings.HasSuffix(path, e.path) {
			return e.format, true
		}
	}
	return "", false
}
