package lambda

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// config holds the settings of the aggregator.
type config struct {
	table     string
	windows   []limiter.Window
	retention time.Duration
	bucket    string // of the archive; "" for none
	level     slog.Level
}

// environment returns the value of a variable.
type environment func(name string) string

// get returns the trimmed value of a variable, or fallback if that is empty.
func (env environment) get(name, fallback string) string {
	return cmp.Or(strings.TrimSpace(env(name)), fallback)
}

// readConfig reads the settings. Its error names the first invalid variable.
func readConfig(env environment) (c config, err error) {
	c.table = env.get("TABLE_NAME", defaultTable)
	if c.windows, err = aggregator.ParseWindows(env.get("SNAPSHOT_WINDOWS", "hourly,daily,monthly")); err != nil {
		return c, fmt.Errorf("SNAPSHOT_WINDOWS: %w", err)
	}

	const maxDays = 3650
	days, err := strconv.Atoi(env.get("SNAPSHOT_TTL_DAYS", strconv.Itoa(int(dynamo.DefaultUsageRetention/day))))
	if err != nil || days < 1 || days > maxDays {
		return c, fmt.Errorf("SNAPSHOT_TTL_DAYS %q: must be a whole number from 1 to %d", env("SNAPSHOT_TTL_DAYS"),
			maxDays)
	}

	c.retention = time.Duration(days) * day
	if strings.EqualFold(env.get("ENABLE_ARCHIVAL", "false"), "true") {
		c.bucket = env.get("ARCHIVE_BUCKET_NAME", "")
	}

	c.level, err = parseLevel(env.get("LOG_LEVEL", "INFO"))
	return c, err
}

// defaultTable is the table if TABLE_NAME is empty.
const defaultTable = "rate-limits"

const day = 24 * time.Hour

// parseLevel parses a level by its Go or Python name.
func parseLevel(name string) (level slog.Level, err error) {
	switch strings.ToUpper(name) {
	// Python says WARNING and CRITICAL, and Lambda TRACE and FATAL. Package
	// slog knows none of them.
	case "WARNING":
		return slog.LevelWarn, nil
	case "CRITICAL", "FATAL":
		return slog.LevelError, nil
	case "TRACE":
		return slog.LevelDebug, nil
	}

	if err := level.UnmarshalText([]byte(name)); err != nil {
		return level, fmt.Errorf("LOG_LEVEL %q: must be DEBUG, INFO, WARNING or ERROR", name)
	}
	return level, nil
}
