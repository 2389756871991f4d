package function

import (
	"io"
	"log/slog"
)

// newLog writes one JSON object for each line, with the names that dashboards of
// the Python library look for.
func newLog(out io.Writer, level slog.Level, name string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: rename})).With("logger", "zae_limiter."+name)
}

func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("timestamp", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		if a.Value.Any() == slog.LevelWarn {
			a.Value = slog.StringValue("WARNING")
		}
	}
	return a
}
