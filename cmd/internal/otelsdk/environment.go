package otelsdk

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is a variable of OpenTelemetry and its form. The SDK prints the value of
// a wrong one, which may be a secret, and goes on without it.
type variable struct {
	name  string
	valid func(string) bool
	form  string // what would be right
}

const (
	pairsForm    = "must be KEY=VALUE pairs, separated by commas"
	urlForm      = "must be a URL, such as http://localhost:4318"
	protocolForm = "must be grpc or http/protobuf"
	timeForm     = "must be a whole number of milliseconds"
	countForm    = "must be a whole number"
)

// variables returns the variables that a wrong value can break.
func variables() []variable {
	samplers := []string{
		"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
		"parentbased_traceidratio",
	}
	all := []variable{
		{"OTEL_TRACES_EXPORTER", oneOf("otlp", "console", "none"), "must be otlp, console or none"},
		{
			"OTEL_METRICS_EXPORTER", oneOf("otlp", "prometheus", "console", "none"),
			"must be otlp, prometheus, console or none",
		},
		{"OTEL_RESOURCE_ATTRIBUTES", validPairs, pairsForm},
		{"OTEL_TRACES_SAMPLER", oneOf(samplers...), "must be one of " + strings.Join(samplers, ", ")},
		{"OTEL_TRACES_SAMPLER_ARG", validRatio, "must be a number from 0 to 1"},
		{"OTEL_METRIC_EXPORT_INTERVAL", validCount, timeForm},
		{"OTEL_METRIC_EXPORT_TIMEOUT", validCount, timeForm},
		{"OTEL_BSP_SCHEDULE_DELAY", validCount, timeForm},
		{"OTEL_BSP_EXPORT_TIMEOUT", validCount, timeForm},
		{"OTEL_BSP_MAX_QUEUE_SIZE", validCount, countForm},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", validCount, countForm},
	}

	for _, signal := range []string{"", "TRACES_", "METRICS_"} {
		prefix := "OTEL_EXPORTER_OTLP_" + signal
		all = append(all,
			variable{prefix + "HEADERS", validPairs, pairsForm}, variable{prefix + "ENDPOINT", validURL, urlForm},
			variable{prefix + "PROTOCOL", oneOf("grpc", "http/protobuf"), protocolForm},
			variable{prefix + "TIMEOUT", validCount, timeForm})
	}
	return all
}

// checkEnvironment rejects variables with a wrong value. The error names the
// variable, and never its value.
func checkEnvironment() error {
	for _, v := range variables() {
		// An empty variable counts as one that is not set, as OpenTelemetry
		// defines it.
		if text := strings.TrimSpace(os.Getenv(v.name)); text != "" && !v.valid(text) {
			return fmt.Errorf("%s: %s", v.name, v.form)
		}
	}
	return nil
}

func oneOf(words ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(words, strings.ToLower(text)) }
}

var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~/-]+$")

func validPairs(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !ok || err != nil || !headerName.MatchString(strings.TrimSpace(key)) {
			return false
		}
	}
	return true
}

func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Scheme == "unix")
}

func validRatio(text string) bool {
	ratio, err := strconv.ParseFloat(text, 64)
	return err == nil && ratio >= 0 && ratio <= 1
}

func validCount(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0
}

// secrets returns the parts of the environment that no message may show: the
// values of headers, and users with passwords in URLs.
func secrets() []string {
	var all []string
	for _, v := range variables() {
		text := os.Getenv(v.name)
		switch {
		case strings.HasSuffix(v.name, "_HEADERS"):
			for pair := range strings.SplitSeq(text, ",") {
				_, value, _ := strings.Cut(pair, "=")
				// Errors may have the value as written or decoded.
				plain, _ := url.PathUnescape(value)
				all = append(all, strings.TrimSpace(value), strings.TrimSpace(plain))
			}
		case strings.HasSuffix(v.name, "_ENDPOINT"):
			// A password may appear alone, or with its user in a URL.
			if u, err := url.Parse(text); err == nil && u.User != nil {
				password, _ := u.User.Password()
				all = append(all, u.User.String(), password)
			}
		}
	}

	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// clean returns an error without secrets.
func (t *Telemetry) clean(err error) error {
	if err == nil {
		return nil
	}

	text := err.Error()
	for _, secret := range t.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return errors.New(text)
}
