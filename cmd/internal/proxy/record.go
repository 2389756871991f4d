package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// record is the line of a call in the access log. It holds no header, no query and
// no body, so that no key can get into the log.
type record struct {
	method, path     string
	started          time.Time
	entity, resource string
	model            string
	stream           bool
	upstream         int // status of the upstream; 0 without an answer
	usage            llm.Usage
	reported         bool // the upstream reported usage
	charged          bool // the usage was charged, also if the upstream gave no answer
	priced           bool // the cost of the call is known
	outcome          string
	problem          string
	refusedBy        string // the other entity whose limit refused the call
}

// Outcomes of calls in the access log.
const (
	outcomeServed   = "served"
	outcomeRefused  = "refused"  // by a limit
	outcomeDisabled = "disabled" // by a switch
	outcomeInvalid  = "invalid"  // by the proxy, before any limit
	outcomeBusy     = "busy"     // the proxy has no room
	outcomeOutage   = "outage"   // of the store
	outcomeFailed   = "failed"   // the upstream gave no answer
	outcomeCut      = "cut"      // the answer is not complete
	outcomeGone     = "gone"     // the client left
	outcomeSlow     = "slow"     // the client did not send its body in time
	outcomeUnset    = "unset"    // limits or a price are missing
)

const maxLogged = 200 // bytes of a text that the client chose

func (c *record) begin(r *http.Request, now time.Time) {
	c.method, c.path, c.started, c.outcome = shorten(r.Method), shorten(r.URL.Path), now, outcomeServed
}

func shorten(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged] + "..."
	}
	return text
}

// refuse notes why a call was not admitted.
func (c *record) refuse(err error) {
	problem := httplimit.NewProblem(err)
	_, busy := errors.AsType[*busyError](err)
	invalid, named := errors.AsType[*limiter.InvalidError](err)
	_, chosen := errors.AsType[*httplimit.Problem](err)
	_, exceeded := errors.AsType[*limiter.ExceededError](err)
	off, disabled := errors.AsType[*limiter.DisabledError](err)

	c.problem, c.outcome = problem.Detail, outcomeInvalid
	if named && chosen && !isUnset(err) {
		// The detail may quote the body, which must not get into the log.
		c.problem = "invalid " + invalid.Field
	}

	switch {
	case exceeded:
		c.outcome, c.refusedBy = outcomeRefused, refusedBy(err, c.entity)
	case disabled:
		c.outcome, c.problem = outcomeDisabled, off.Error()
	case isUnset(err):
		c.outcome, c.problem = outcomeUnset, err.Error()
	case busy:
		c.outcome = outcomeBusy
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.outcome = outcomeSlow
	case errors.Is(err, context.Canceled):
		c.outcome = outcomeGone
	case !chosen && problem.Status >= http.StatusInternalServerError:
		c.outcome = outcomeOutage
	}
}

// cut notes that an answer did not come to its end, and whether the client left.
func (c *record) cut(left bool) {
	c.outcome = outcomeCut
	if left {
		c.outcome = outcomeGone
	}
}

// write writes the line.
func (c *record) write(ctx context.Context, log *slog.Logger, now time.Time, w *statusWriter) {
	fields := []slog.Attr{
		slog.String("method", c.method), slog.String("path", c.path), slog.Int("status", w.status),
		slog.String("outcome", c.outcome), slog.Float64("seconds", now.Sub(c.started).Seconds()),
		slog.Int64("bytes", w.bytes),
	}

	for _, f := range []struct{ name, value string }{
		{"entity", c.entity},
		{"resource", c.resource},
		{"model", c.model},
		{"problem", c.problem},
		{"refused_by", c.refusedBy},
	} {
		if f.value != "" {
			fields = append(fields, slog.String(f.name, f.value))
		}
	}

	if c.upstream != 0 {
		fields = append(fields, slog.Int("upstream_status", c.upstream))
	}
	// A call that was charged has its tokens in the log, even without an
	// answer.
	if c.model != "" && (c.upstream != 0 || c.charged) {
		fields = append(fields, slog.Bool("stream", c.stream), slog.Int64("input_tokens", c.usage.Input),
			slog.Int64("output_tokens", c.usage.Output),
			slog.Int64("cached_tokens", c.usage.Cached), slog.Int64("cache_write_tokens", c.usage.Written),
			slog.Bool("usage_reported", c.reported))
		if c.priced {
			fields = append(fields, slog.Int64("cost_microdollars", c.usage.Cost))
		}
	}
	// The request's context has ended if the client left. Its values, such as
	// the trace, still belong to the line.
	log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "request", fields...)
}
