package proxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// checkTarget rejects requests that an upstream could understand in another way
// than the proxy does.
func checkTarget(r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect:
		return &httplimit.Problem{Status: http.StatusMethodNotAllowed, Detail: "CONNECT is not supported: the upstream is fixed"}
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

// formatOf returns the format of a request about a model, and false for any other
// request. The path of the upstream is base. A path that only some servers take for a path about a model, because
// they decode it twice, merge slashes or ignore parameters, is an error: it must
// not cost less.
func formatOf(r *http.Request, base string) (llm.Format, bool, error) {
	plain := r.URL.EscapedPath()
	resolved, err := canonicalPath(plain)
	if err != nil {
		return "", false, err
	}
	format, found := llm.FormatOf(base + resolved)
	if !found {
		return "", false, nil
	}
	if direct, ok := llm.FormatOf(base + plain); !ok || direct != format || plain != resolved && plain != resolved+"/" {
		return "", false, badRequest("the path must be written plainly, such as /v1/chat/completions")
	}
	return format, r.Method == http.MethodPost, nil
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
