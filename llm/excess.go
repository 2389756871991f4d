package llm

// A bound of tokens is counted in thirds, and its excess over half a token for each
// byte in sixths.
const (
	token     = 3 // thirds
	goodPair  = 2
	space     = 1 // before a word, or after another space
	halfToken = 3 // sixths, for a byte
)

// excessOf returns how much the most tokens of a text exceed half a token for each
// byte, in sixths of a token. It is below 0 for ordinary text. The text is a string
// of valid JSON without its quotes, which the API reads decoded if escaped is set,
// and may read as written otherwise.
func excessOf(text []byte, escaped bool) int64 {
	return 2*mostTokens(text, escaped) - halfToken*int64(len(text))
}

// mostTokens returns a bound of the tokens of a text, in thirds. No tokenizer of
// bytes makes more than a token of a byte, so only words and the spaces before them
// cost less. In a word, a letter costs two thirds if it forms a token with the
// letter before it: the tokenizer joins such letters, so of two of them that stand
// side by side one at least is in a longer token. "the xylophone" costs a token for
// "the", a third for the space, a token for "x" and two thirds for each of the other
// eight letters: 7 2/3 in all.
func mostTokens(text []byte, escaped bool) (thirds int64) {
	before := byte(0) // the character before, or any non-ASCII byte for an unknown one

	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case isLower(c):
			end, cost := wordAt(text, i)
			if isCommon(text, i, end, before, escaped) {
				cost = token
			} else if before == ' ' {
				cost += space
			}
			thirds += cost
			i, c = end, text[end-1]
		case isUpper(c) && i+1 < len(text) && isLower(text[i+1]):
			end, cost := wordAt(text, i+1)
			if isCommon(text, i, end, before, escaped) {
				cost = 0
			}
			thirds += token + cost
			i, c = end, text[end-1]
		case c == ' ':
			thirds += spaceAt(text, i, before)
			i++
		case c == '\\' && escaped && text[i+1] == 'u':
			thirds += token * escapedBytes(text[i+2:])
			// A letter may be written so, and belong to the word beside it.
			i, c = i+len(`\u0000`), 0x80
		case c == '\\' && escaped:
			thirds += token
			c = unescape(text[i+1])
			i += 2
		default:
			thirds += token
			i++
		}
		before = c
	}
	return thirds
}

// wordAt returns the end of the lower-case letters that begin at a position, and
// what they cost.
func wordAt(text []byte, at int) (end int, thirds int64) {
	thirds = token
	for end = at + 1; end < len(text) && isLower(text[end]); end++ {
		rare := rarePairs[text[end-1]-'a'] >> (text[end] - 'a') & 1
		thirds += goodPair + int64(rare)
	}
	return end, thirds
}

// isCommon reports whether the letters between two positions are one of the common
// words, the first letter in either case, and not a part of a longer one. An
// apostrophe makes its own tokens of letters that follow it.
func isCommon(text []byte, at, end int, before byte, escaped bool) bool {
	if end-at > longestCommon || joins(before) || before == '\'' {
		return false
	}
	if end < len(text) && (joins(text[end]) ||
		escaped && text[end] == '\\' && text[end+1] == 'u') {
		return false
	}
	var room [longestCommon]byte
	word := append(room[:0], text[at:end]...)
	word[0] |= 0x20
	return commonWords[string(word)]
}

// spaceAt returns what the space at a position costs. One before a lower-case word
// is counted with the word.
func spaceAt(text []byte, at int, before byte) (thirds int64) {
	after := byte(0)
	if at+1 < len(text) {
		after = text[at+1]
	}

	switch {
	case isLower(after):
		return 0
	case isUpper(after), before == ' ':
		return space
	}
	return token
}

// escapedBytes returns the bytes of the character that four hexadecimal digits
// stand for. Half of a pair counts as a character.
func escapedBytes(digits []byte) int64 {
	switch r := hexRune(digits); {
	case r < 0x80:
		return 1
	case r < 0x800:
		return 2
	}
	return 3
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// joins reports whether a byte beside a word may belong to it.
func joins(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }
