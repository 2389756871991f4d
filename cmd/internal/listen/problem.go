package listen

import (
	"encoding/json"
	"net/http"
)

// refuse answers a request with a problem document (RFC 9457).
func refuse(w http.ResponseWriter, status int, detail string) {
	body, _ := json.Marshal(struct { //nolint:errchkjson // it has nothing that JSON cannot hold
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
