package proxy

import (
	"errors"
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
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
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

// subjectOf returns the subject of a request. A path that only some servers take
// for a path about a model, because they decode it twice, merge slashes or ignore
// parameters, is an error: it must not cost less. So is any other call that Paths
// does not list.
func (p *Proxy) subjectOf(r *http.Request) (subject, error) {
	plain := r.URL.EscapedPath()
	base := p.upstreamOf(plain).Path
	resolved, err := canonicalPath(plain)
	if err != nil {
		return subject{}, err
	}

	// A lenient server resolves /v1/chat%2Fcompletions to a call of a model.
	// Such a path is refused rather than charged less. Only one slash at the
	// end is allowed.
	format, found := formatOf(base, resolved)
	if found {
		if direct, ok := formatOf(base, plain); !ok || direct != format || plain != resolved &&
			plain != resolved+"/" {
			return subject{}, badRequest("the path must be written plainly, such as /v1/chat/completions")
		}
	}

	switch {
	case found && r.Method == http.MethodPost:
		return subject{true, format, modelOf(base + plain)}, nil
	// A lenient server could take these methods, which have a body, for a call
	// of the model. So not even Paths admits them.
	case found && (r.Method == http.MethodPut || r.Method == http.MethodPatch):
		return subject{}, badMethod("a model is called with POST")
	case slices.ContainsFunc(p.opts.Paths, func(pattern string) bool {
		// An entry may begin with the path of the upstream, or leave it out.
		return fits(pattern, r.Method, plain) || fits(pattern, r.Method, base+plain)
	}):
		return subject{}, nil
	case found:
		return subject{}, badMethod("a model is called with POST")
	}

	return subject{}, &httplimit.Problem{
		Status: http.StatusNotFound,
		Detail: r.Method + " " + shorten(plain) + " is not forwarded here; the operator of this proxy lists " +
			"such calls with --paths",
	}
}

// upstreamOf returns the upstream for a request to a path. SDKs have the version in
// their base URL, and people give that URL as the upstream while their clients send
// the version as well. No API has calls at /v1/v1, so the parts at the end of the
// upstream's path that the request repeats are left out of it, if they end in a
// version.
func (p *Proxy) upstreamOf(path string) *url.URL {
	u := p.opts.Upstream
	base := strings.TrimRight(u.Path, "/")
	// What the upstream makes of a path with escapes is not certain.
	if u.RawPath != "" || !isVersion(base[strings.LastIndexByte(base, '/')+1:]) {
		return u
	}

	// The longest end comes first: a request may repeat /openai/v1, or only /v1.
	for i, c := range base {
		if end := base[i:]; c == '/' && (path == end || strings.HasPrefix(path, end+"/")) {
			shorter := *u
			shorter.Path = base[:i]
			return &shorter
		}
	}
	return u
}

// isVersion reports whether a part of a path is a version, such as "v1" or
// "v1beta".
func isVersion(part string) bool {
	number, found := strings.CutPrefix(part, "v")
	stage := strings.TrimLeft(number, "0123456789")
	return found && stage != number &&
		slices.Contains([]string{"", "alpha", "beta"}, strings.TrimRight(stage, "0123456789"))
}

// formatOf returns the format of requests to a path below base, the path of the
// upstream. The operator has chosen the parts of base, so that any of them may come
// before the call: an upstream of /gateway/v1 has calls at /chat/completions, and one
// of /v1/chat at /completions.
func formatOf(base, path string) (llm.Format, bool) {
	base = strings.TrimRight(base, "/")
	for {
		if format, found := llm.FormatOf(base + path); found {
			return format, true
		}
		if base == "" {
			return "", false
		}

		_, rest, more := strings.Cut(base[1:], "/")
		if base = ""; more {
			base = "/" + rest
		}
	}
}

// CheckPath reports why a text cannot be one of Options.Paths.
func CheckPath(pattern string) error {
	method, path, found := strings.Cut(pattern, " ")
	if !found {
		method, path = "", pattern
	}

	at, wild := strings.CutSuffix(path, "*")
	if found && !slices.Contains(methods, method) || strings.ContainsAny(at, "*?#%\\; ") ||
		!strings.HasPrefix(at, "/") && (at != "" || !wild) {
		return errors.New(
			`must be a path that begins with "/", such as /v1/files, and may end in "*"; ` +
				`a method may come before it, as in "GET /v1/files*"`,
		)
	}
	return nil
}

// fits reports whether a pattern lists a call. A pattern without a method lists
// every method.
func fits(pattern, method, path string) bool {
	if before, after, found := strings.Cut(pattern, " "); found {
		if before != method {
			return false
		}
		pattern = after
	}

	if start, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(path, start)
	}
	return path == pattern
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

// canonicalPath returns the path that a lenient server makes of p. A path that
// servers cut at different places, or resolve to different ones, is an error.
func canonicalPath(p string) (string, error) {
	if isPlain(p) {
		return p, nil
	}
	// Each round undoes one layer of escapes. No server decodes as often.
	const rounds = 4
	for range rounds {
		if err := checkPath(p); err != nil {
			return "", err
		}

		decoded, err := url.PathUnescape(p)
		// A decoded text may hold a percent sign that escapes nothing. It stays
		// as it is.
		if err != nil || decoded == p {
			break
		}
		p = decoded
	}

	if err := checkPath(p); err != nil {
		return "", err
	}

	// Some servers ignore spaces around the parts of a path.
	parts := strings.Split(p, "/")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}

	return path.Clean("/" + strings.Join(parts, "/")), nil
}

// checkPath rejects a path, decoded or not, that servers understand in different
// ways.
func checkPath(p string) error {
	for _, c := range p {
		if c < ' ' || c == 0x7f || strings.ContainsRune(`?#;\`, c) {
			return badRequest(
				`the path must not contain "?", "#", ";", "\" or control characters, also not escaped ones`,
			)
		}
	}

	for i, part := range strings.Split(p, "/") {
		if part == "." || part == ".." {
			return badRequest(`the path must not contain "." or ".." between slashes`)
		}
		// A slash at either end of the path makes an empty part too.
		if part == "" && i > 0 && i < strings.Count(p, "/") {
			return badRequest("the path must not contain two slashes in a row")
		}
	}
	return nil
}

// isPlain reports whether all servers understand a path in the same way.
func isPlain(p string) bool {
	for i := range len(p) {
		c := p[i]
		// The bit 0x20 makes a letter lower case.
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !letter && (c != '/' || i > 0 && p[i-1] == '/') {
			return false
		}
	}
	return len(p) > 1 && p[len(p)-1] != '/'
}
