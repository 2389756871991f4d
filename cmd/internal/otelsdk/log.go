package otelsdk

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that writes JSON lines to w. A record whose context is
// part of a trace has its trace_id and span_id.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(tracedHandler{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
}

// tracedHandler adds the IDs of the trace to records.
type tracedHandler struct{ slog.Handler }

// Handle adds the IDs of the trace to a record, and writes it.
func (h tracedHandler) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		// Copies of a record share attributes, so that slog requires a clone
		// before a change.
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs returns a handler that adds attributes to all records.
func (h tracedHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return tracedHandler{h.Handler.WithAttrs(attributes)}
}

// WithGroup returns a handler that puts attributes in a group.
func (h tracedHandler) WithGroup(name string) slog.Handler {
	return tracedHandler{h.Handler.WithGroup(name)}
}

// plainHandler logs the messages of the SDK from warnings on, without attributes,
// since those repeat the environment.
type plainHandler struct{ slog.Handler }

// Enabled reports whether a record is at least a warning.
func (h plainHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// Handle writes the message of a record alone.
func (h plainHandler) Handle(ctx context.Context, record slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(record.Time, record.Level, "telemetry: "+record.Message, record.PC))
}

// WithAttrs drops the attributes.
func (h plainHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup drops the group.
func (h plainHandler) WithGroup(string) slog.Handler { return h }
