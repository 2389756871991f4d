package figure

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// suffixes are the zeros that a suffix stands for.
var suffixes = map[byte]int{'k': 3, 'K': 3, 'M': 6, 'G': 9, 'T': 12}

// millionthZeros are the zeros between a dollar and its millionths.
const millionthZeros = 6

// maxDecimals is the most digits of a fraction.
const maxDecimals = 6

// Parse reads an amount of a limit: a whole number such as 500, or one with a
// suffix such as 10k, 1.5M, 2G or 1T; 10K is the same as 10k. A limit of money
// also has dollars, such as $50 and $0.25; without the sign its amounts are
// millionths. Parse returns the reason if text is none of these.
func Parse(limit, text string) (n int64, why string) {
	if n, ok := parse(text, IsMoney(limit)); ok {
		return n, ""
	}

	if right := respell(limit, text); right != "" {
		return 0, "must be spelled " + right
	}

	switch {
	case IsMoney(limit):
		return 0, "must be dollars such as $50 or $0.25, in quotes for a shell, or a whole number of " +
			"millionths of a dollar"
	case strings.HasPrefix(text, "$"):
		return 0, fmt.Sprintf(
			"is in dollars, but %s does not count money: only a limit named spend does, or one such as spend_daily",
			limit,
		)
	}
	return 0, "must be a whole number, such as 500, 10k or 1.5M"
}

// respell returns the right form of a number with separators, a space or a suffix
// in the wrong case, or "".
func respell(limit, text string) string {
	right := strings.NewReplacer(",", "", "_", "", " ", "").Replace(text)
	if last := len(right) - 1; last > 0 {
		switch right[last] {
		case 'm':
			right = right[:last] + "M"
		case 'g':
			right = right[:last] + "G"
		case 't':
			right = right[:last] + "T"
		}
	}

	if _, ok := parse(right, IsMoney(limit)); !ok || right == text {
		return ""
	}
	return right
}

// parse reads digits with an optional fraction and suffix. Everything that may
// surround the digits is a power of ten, so that only zeros are counted.
func parse(text string, money bool) (int64, bool) {
	// Each part adds or removes zeros: the sign of dollars six, and a suffix
	// those that it stands for.
	zeros, hasSuffix := 0, false
	if digits, dollars := strings.CutPrefix(text, "$"); dollars && money {
		text, zeros = digits, millionthZeros
	}
	// A suffix alone is no number.
	if last := len(text) - 1; last > 0 && suffixes[text[last]] > 0 {
		text, zeros, hasSuffix = text[:last], zeros+suffixes[text[last]], true
	}

	whole, fraction, hasFraction := strings.Cut(text, ".")
	if !isDigits(whole) || whole[0] == '0' && (len(whole) > 1 || hasSuffix) || hasFraction && !isDigits(fraction) {
		return 0, false
	}

	n, err := strconv.ParseUint(whole+fraction, 10, 64)
	// A fraction that is finer than the unit has no whole value: $1.5k is 1,500
	// dollars, but there are no 1.5 tokens.
	if zeros -= len(fraction); err != nil || zeros < 0 || len(fraction) > maxDecimals {
		return 0, false
	}

	for range zeros {
		var over uint64
		if over, n = bits.Mul64(n, 10); over > 0 {
			return 0, false
		}
	}
	return int64(n), n <= 1<<63-1
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
