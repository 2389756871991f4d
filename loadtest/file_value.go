package loadtest

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// decoder turns nodes into a plan and collects the problems.
type decoder struct {
	yamlfile.Reader
	entries int // keys and items read so far; an alias counts each time
}

// maxEntries bounds the keys and items of a file, since aliases of aliases can
// make a small file huge.
const maxEntries = 20_000

func newDecoder() *decoder {
	d := &decoder{}
	d.Form = yamlfile.Form{
		Empty:   "the file is empty; a scenario has at least the key classes",
		Second:  "another document begins here; put each scenario in a file of its own",
		Anchors: true,
		Merge:   "merge keys are not supported; refer to the whole section instead, as in *name",
		Suggest: true,
		Clip:    clip,
		// A file that has too much by now is reported already.
		Full: func(n yamlfile.Node) bool { return d.entries > maxEntries || d.count(n) },
	}
	return d
}

// count counts a key or an item of n, and reports whether the file has too many.
func (d *decoder) count(n yamlfile.Node) (tooMany bool) {
	if d.entries++; d.entries > maxEntries {
		d.Problem(n, "a scenario has at most %d keys and items", maxEntries)
	}
	return d.entries > maxEntries
}

// err returns the problems in the order of the file.
func (d *decoder) err(file string, foreign bool) error {
	all := make([]Problem, len(d.Problems))
	for i, p := range d.Problems {
		all[i] = Problem{p.Line, p.Text}
		if p.Path != "" {
			all[i].Text = clip(p.Path) + ": " + p.Text
		}
	}

	// The checks after the decoding find problems of earlier lines.
	slices.SortStableFunc(all, func(a, b Problem) int { return a.Line - b.Line })
	return &FileError{file, slices.Compact(all), foreign}
}

// maxNumber bounds weights and numbers of users and entities.
const maxNumber = 1_000_000

// decodeWhole reads a whole number from least to maxNumber.
func (d *decoder) decodeWhole(n yamlfile.Node, least int) int {
	i, err := strconv.Atoi(n.Value)
	if !n.IsWhole() || err != nil || i < least || i > maxNumber {
		d.Problem(n, "must be a whole number from %d to %d in plain digits, not %s", least, maxNumber,
			d.Describe(n))
		return least
	}
	return i
}

// decodeNumber reads a number above 0 that may have a fraction.
func (d *decoder) decodeNumber(n yamlfile.Node, most float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	// YAML libraries disagree on spellings such as 0x10, 1_000 and +1.
	if !n.Is(yamlfile.Int, yamlfile.Float) || err != nil || math.IsNaN(f) || f <= 0 || f > most ||
		strings.ContainsAny(n.Value, "_xX+") {
		d.Problem(n, "must be a number above 0 and at most %s, such as 0.5, not %s",
			strconv.FormatFloat(most, 'f', -1, 64), d.Describe(n))
		return 1
	}
	return f
}

// plainDuration matches the durations that files may have.
var plainDuration = regexp.MustCompile(`^([0-9]{1,6}(\.[0-9]{1,6})?(us|ms|s|m|h)){1,3}$`)

// parseDuration parses a duration with units, such as 1m30s.
func parseDuration(text string) (time.Duration, bool) {
	span, err := time.ParseDuration(text)
	return span, err == nil && plainDuration.MatchString(text)
}

// decodeDuration reads a duration above 0.
func (d *decoder) decodeDuration(n yamlfile.Node) time.Duration {
	span, ok := parseDuration(n.Value)
	if !n.Is(yamlfile.Text) || !ok || span <= 0 {
		d.Problem(n, "must be a duration above 0 such as 90s or 1h30m, not %s", d.Describe(n))
	}
	return span
}

// decodeWait reads a duration or a range of durations. A bare 0 is no wait.
func (d *decoder) decodeWait(n yamlfile.Node) Wait {
	if n.Is(yamlfile.Int) && n.Value == "0" {
		return Wait{}
	}

	low, high, isRange := strings.Cut(n.Value, "..")
	if !isRange {
		high = low
	}

	least, lowOK := parseDuration(low)
	most, highOK := parseDuration(high)

	switch {
	case !n.Is(yamlfile.Text) || !lowOK || !highOK:
		d.Problem(n, "must be a duration such as 500ms, or a range such as 500ms..2s, not %s", d.Describe(n))
	case least > most:
		d.Problem(n, "the range %s begins above its end; write the shorter duration first", n.Value)
	}

	return Wait{Min: least, Max: most}
}

// clip shortens text for a problem.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	// The cut may fall inside a character.
	return strings.ToValidUTF8(text[:most], "") + "..."
}
