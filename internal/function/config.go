package function

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// config is what the environment says.
type config struct {
	table     string
	windows   []limiter.Window
	retention time.Duration
	bucket    string // of the archive; "" if there is none
	level     slog.Level
}

// environment gives the value of a variable, without spaces around it.
type environment func(name string) string

func (env environment) get(name, otherwise string) string {
	return cmp.Or(strings.TrimSpace(env(name)), otherwise)
}

// readConfig reads all of it, and names the first variable that is wrong.
func readConfig(env environment) (c config, err error) {
	c.table = env.get("TABLE_NAME", defaultTable)
	if c.windows, err = aggregator.ParseWindows(env.get("SNAPSHOT_WINDOWS", "hourly,daily,monthly")); err != nil {
		return c, fmt.Errorf("SNAPSHOT_WINDOWS: %w", err)
	}
	const most = 3650
	days, err := strconv.Atoi(env.get("SNAPSHOT_TTL_DAYS", strconv.Itoa(int(dynamo.DefaultUsageRetention/day))))
	if err != nil || days < 1 || days > most {
		return c, fmt.Errorf("SNAPSHOT_TTL_DAYS has to be a whole number from 1 to %d, not %q", most, env("SNAPSHOT_TTL_DAYS"))
	}
	c.retention = time.Duration(days) * day
	if strings.EqualFold(env.get("ENABLE_ARCHIVAL", "false"), "true") {
		c.bucket = env.get("ARCHIVE_BUCKET_NAME", "")
	}
	c.level, err = parseLevel(env.get("LOG_LEVEL", "INFO"))
	return c, err
}

// defaultTable is the one where nothing names another.
const defaultTable = "rate-limits"

const day = 24 * time.Hour

// parseLevel knows the names of both languages.
func parseLevel(name string) (level slog.Level, err error) {
	switch strings.ToUpper(name) {
	case "WARNING":
		return slog.LevelWarn, nil
	case "CRITICAL", "FATAL":
		return slog.LevelError, nil
	case "TRACE":
		return slog.LevelDebug, nil
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return level, fmt.Errorf("LOG_LEVEL has to be DEBUG, INFO, WARNING or ERROR, not %q", name)
	}
	return level, nil
}
