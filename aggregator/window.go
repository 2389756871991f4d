package aggregator

import (
	"errors"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// windows are all that usage is counted in.
func windows() []limiter.Window {
	return []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}
}

// ParseWindows reads a list of windows, such as "hourly, daily".
func ParseWindows(list string) ([]limiter.Window, error) {
	var found []limiter.Window
	for name := range strings.SplitSeq(list, ",") {
		w := limiter.Window(strings.TrimSpace(name))
		if !slices.Contains(windows(), w) || slices.Contains(found, w) {
			return nil, errors.New("it has to be hourly, daily and monthly, each at most once, such as hourly,daily")
		}
		found = append(found, w)
	}
	return found, nil
}
