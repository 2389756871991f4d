package proxy

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// methods lists the methods that pass. Others mean different things to different
// servers, and some servers take "post" for POST.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// checkTarget rejects requests that an upstream could understand in another way
// than the proxy does.
func checkTarget(r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect:
		return badMethod("CONNECT is not supported: the upstream is fixed")
	case !slices.Contains(methods, r.Method):
		return badMethod("the method must be one of " + strings.Join(methods, ", "))
	case r.URL.Host != "" || r.URL.Scheme != "" || !strings.HasPrefix(r.URL.Path, "/"):
		return badRequest("send the path of the API only: the upstream is fixed")
	case r.Header.Get("Upgrade") != "":
		return badRequest("upgrades to another protocol are not supported")
	}
	return nil
}

func badRequest(detail string) error {
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: detail}
}

func badMethod(detail string) error {
	return &httplimit.Problem{Status: http.StatusMethodNotAllowed, Detail: detail}
}

// subject is the address of a request, as far as it decides about the cost.
type subject struct {
	call   bool // of a model; the rest is zero otherwise
	format llm.Format
	model  string // "" if only the body names it
}

// subjectOf returns the subject of a request. The path of the upstream is base. A
// path that only some servers take for a path about a model, because they decode
// it twice, merge slashes or ignore parameters, is an error: it must not cost less.
func subjectOf(r *http.Request, base string) (subject, error) {
	plain := r.URL.EscapedPath()
	resolved, err := canonicalPath(plain)
	if err != nil {
		return subject{}, err
	}
	format, found := llm.FormatOf(base + resolved)
	if !found {
		return subject{}, nil
	}
	if direct, ok := llm.FormatOf(base + plain); !ok || direct != format || plain != resolved && plain != resolved+"/" {
		return subject{}, badRequest("the path must be written plainly, such as /v1/chat/completions")
	}
	switch r.Method {
	case http.MethodPost:
		return subject{true, format, modelOf(base + plain)}, nil
	case http.MethodPut, http.MethodPatch:
		return subject{}, badMethod("a model is called with POST")
	}
	return subject{}, nil
}

// modelOf returns the model that a path names, as /openai/deployments/NAME/... and
// /v1/engines/NAME/... do, or "". The last one decides.
func modelOf(path string) string {
	parts := strings.Split(path, "/")
	for i := len(parts) - 2; i >= 0; i-- {
		if strings.EqualFold(parts[i], "deployments") || strings.EqualFold(parts[i], "engines") {
			return parts[i+1]
		}
	}
	return ""
}

// canonicalPath returns the path that a lenient server makes of p.
func canonicalPath(p string) (string, error) {
	if isPlain(p) {
		return p, nil
	}
	for range 4 {
		decoded, err := url.PathUnescape(p)
		if err != nil {
			break // a literal percent sign, after the first round
		}
		if decoded == p {
			break
		}
		p = decoded
	}
	p = strings.ReplaceAll(p, `\`, "/")
	parts := strings.Split(p, "/")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, ";")
		if name == ".." {
			return "", badRequest("the path must not contain \"..\"")
		}
		parts[i] = strings.TrimFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	}
	return path.Clean("/" + strings.Join(parts, "/")), nil
}

// isPlain reports whether all servers understand a path in the same way.
func isPlain(p string) bool {
	for i := range len(p) {
		c := p[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !letter && (c != '/' || i > 0 && p[i-1] == '/') {
			return false
		}
	}
	return len(p) > 1 && p[len(p)-1] != '/'
}
