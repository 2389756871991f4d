package webdemo

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// fail answers a request that failed. A client sees the text of an error only if it
// is about the client's own input.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := newProblem(err)

	// A client that left causes errors of its own.
	if web.Hides(problem, err) && !gone(r, err) {
		h.opts.OnError(err)
	}

	if problem.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="zae-limiter demo"`)
	}

	problem.ServeHTTP(w, r)
}

func newProblem(err error) *httplimit.Problem {
	if chosen, ok := errors.AsType[*httplimit.Problem](err); ok {
		return chosen
	}

	switch {
	case errors.Is(err, limiter.ErrNotFound):
		return &httplimit.Problem{Status: http.StatusNotFound, Detail: "there is no such entity"}
	case errors.Is(err, limiter.ErrExists):
		return &httplimit.Problem{Status: http.StatusConflict, Detail: "an entity with this ID exists"}
	case errors.Is(err, limiter.ErrNoLimits):
		return &httplimit.Problem{
			Status: http.StatusConflict,
			Detail: "no limits of requests or tokens are in force for this key and model; set limits rpm or tpm",
		}
	}

	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return &httplimit.Problem{Status: http.StatusBadRequest, Detail: bad.Error()}
	}

	return httplimit.NewProblem(err)
}

// rules are lenient as OpenAI's API is: the demo takes any content type, and what
// encoding/json takes for the fields of a body.
var rules = &web.Rules{Refuse: refuse}

// refuse returns the answer to a fault of a request, in the words of the demo.
func refuse(f *web.Fault) error {
	switch f.Kind {
	case web.OtherType, web.RepeatedField, web.Unusual, web.BadQuery, web.EmptyParameter:
		return nil
	case web.OtherMethod:
		return &httplimit.Problem{Status: f.Status, Detail: "this path allows " + f.Want}
	case web.CutOff:
		return f.Err
	case web.Trailing:
		return web.Bad("body: must be one JSON object, with nothing after it")
	case web.WrongType:
		return web.Bad("body: field %s must not be a JSON %s", f.Name, f.Got)
	case web.UnknownField:
		return web.Bad("body: field %.40s is unknown; /docs lists the fields", strconv.Quote(f.Name))
	case web.UnknownParameter:
		return web.Bad("parameter %.40q is unknown; /docs lists the parameters", f.Name)
	case web.RepeatedParameter:
		return web.Bad("parameter %s is given twice; give it once", f.Name)
	case web.WrongParameter:
		return web.Bad("parameter %s must be %s", f.Name, f.Want)
	}
	return f
}
