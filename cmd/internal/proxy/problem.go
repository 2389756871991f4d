package proxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// dialect is the form in which an API reports errors. SDKs look for it.
type dialect int

const (
	openAI dialect = iota
	anthropic
)

// dialectOf returns the dialect of a request to an upstream whose path is base.
func dialectOf(r *http.Request, base string) dialect {
	format, known := formatOf(base, r.URL.Path)
	if format == llm.Messages || !known && r.Header.Get("Anthropic-Version") != "" {
		return anthropic
	}
	return openAI
}

// writeError answers with the problem of err, which also has the members by which
// the SDKs of the API show an error.
func (d dialect) writeError(w http.ResponseWriter, err error, f *httplimit.Fields) {
	problem := httplimit.NewProblem(err)
	reason := map[string]any{"message": problem.Detail}

	if d == anthropic {
		// The errors of Anthropic's API have this type. RFC 9457 allows it,
		// since any word is a relative URI reference.
		problem.Type, reason["type"] = "error", anthropicType(problem.Status)
	} else {
		reason["type"], reason["code"] = openAIType(problem.Status)
		reason["param"] = nil
		if isSpent(err, problem) {
			reason["type"], reason["code"] = "insufficient_quota", "insufficient_quota"
		}
		// param names a field of the body. A field with a space, such as "limit
		// of cost", is none.
		if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok && problem.Status == http.StatusBadRequest &&
			!strings.Contains(invalid.Field, " ") {
			reason["param"] = invalid.Field
		}
	}

	problem.Extensions = map[string]any{"error": reason}
	// The problem is the answer. err is there for the headers, which show the
	// limits of a refusal.
	httplimit.WriteError(w, errors.Join(problem, err), f)
}

// isSpent reports whether a quota is used up for longer than clients wait.
func isSpent(err error, problem *httplimit.Problem) bool {
	refusal, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok || problem.RetryAfter <= longestRetry {
		return false
	}

	for _, s := range refusal.Decision.Violations() {
		// Only a quota has a window.
		if s.Limit.Window.String() != "" {
			return true
		}
	}
	return false
}

// openAIErrors has the type and the code of the errors of OpenAI's API, by status.
var openAIErrors = map[int][2]string{
	http.StatusUnauthorized:          {"invalid_request_error", "invalid_api_key"},
	http.StatusForbidden:             {"permission_error", "access_disabled"},
	http.StatusNotFound:              {"invalid_request_error", "not_found"},
	http.StatusRequestTimeout:        {"invalid_request_error", "request_timeout"},
	http.StatusRequestEntityTooLarge: {"invalid_request_error", "request_too_large"},
	http.StatusTooManyRequests:       {"rate_limit_error", "rate_limit_exceeded"},
	http.StatusServiceUnavailable:    {"server_error", "overloaded"},
}

// openAIType returns the type and the code of an error of OpenAI's API.
func openAIType(status int) (kind, code string) {
	names, known := openAIErrors[status]
	switch {
	case known:
	case status >= http.StatusInternalServerError:
		names = [2]string{"server_error", "server_error"}
	default:
		names = [2]string{"invalid_request_error", "invalid_request"}
	}
	return names[0], names[1]
}

// anthropicErrors has the types of the errors of Anthropic's API, by status.
var anthropicErrors = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// anthropicType returns the type of an error of Anthropic's API.
func anthropicType(status int) string {
	if kind, known := anthropicErrors[status]; known {
		return kind
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}
