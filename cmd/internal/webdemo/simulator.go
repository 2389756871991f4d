package webdemo

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	defaultOutput = 100   // tokens of an answer to a request without a maximum
	maxOutput     = 4_000 // tokens of any answer
	minTokens     = 10    // of a prompt and of an answer
	charsPerToken = 4
)

// sentences make up every answer.
var sentences = []string{
	"A token bucket fills at a steady rate and never holds more than its capacity.",
	"Each call takes what it needs, or waits until enough has come back.",
	"An estimate is taken before the work begins, and the difference is settled when the answer is complete.",
	"If the estimate was too low, the bucket goes into debt and repays it from the next refill.",
	"A key that cascades charges its project as well, so that all keys together stay within one budget.",
	"Small requests meet the limit of requests first, and large ones the limit of tokens.",
}

// countTokens counts the tokens of a prompt. It is an llm.Counter.
func countTokens(_, text string) int64 {
	return max(minTokens, int64(utf8.RuneCountInString(strings.TrimSpace(text))/charsPerToken))
}

// simulator draws answers. It is safe for concurrent use, and the same seed gives
// the same answers.
type simulator struct {
	mu     sync.Mutex
	random *rand.Rand
}

func newSimulator(seed uint64) *simulator {
	return &simulator{random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a simulation
}

// simulated is the answer of a model that does not exist.
type simulated struct {
	words  []string
	tokens int64         // of the whole answer, at least one
	begin  time.Duration // until the first word
	write  time.Duration // from the first word to the last
}

// draw returns an answer to a request with a maximum of most tokens, 1 or more. Its
// tokens are at most that many, but at least minTokens.
func (s *simulator) draw(model string, most int64) simulated {
	// A rand.Rand is not safe for concurrent use.
	s.mu.Lock()
	jitter, share, first := s.random.Float64(), 0.9+0.1*s.random.Float64(), s.random.IntN(len(sentences))
	s.mu.Unlock()

	begin := 50 * time.Millisecond
	if strings.Contains(model, modelLarge) {
		begin = 100 * time.Millisecond
	}

	out := simulated{
		tokens: max(minTokens, int64(float64(most)*share)),
		begin:  begin + time.Duration(jitter*float64(50*time.Millisecond)),
		write:  time.Duration(most) * 100 * time.Microsecond,
	}

	length := max(1, int(most/2))
	for i := first; len(out.words) < length; i++ {
		out.words = append(out.words, strings.Fields(sentences[i%len(sentences)])...)
	}
	out.words = out.words[:length]
	return out
}

// latency returns the time of the whole answer.
func (s simulated) latency() time.Duration { return s.begin + s.write }

// text returns the whole answer.
func (s simulated) text() string { return strings.Join(s.words, " ") }

// tokensOf returns the tokens of the first n words.
func (s simulated) tokensOf(n int) int64 { return s.tokens * int64(n) / int64(len(s.words)) }
