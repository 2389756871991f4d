package llm

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Price is the price of one model in millionths of a dollar. A negative price
// counts as 0. MaxOutput, Context and Image are sizes of the model, which bound
// what a call can cost.
type Price struct {
	From   time.Time // when the price began; zero if it always applied
	Input  int64     // for a million tokens of the prompt
	Output int64     // for a million tokens of the answer
	// CacheRead is for a million tokens of the prompt that came from the API's
	// cache. It applies to them in place of Input.
	CacheRead int64
	// CacheWrite is for a million tokens of the prompt that the API wrote to
	// its cache. It applies to them in place of Input.
	CacheWrite int64
	Request    int64 // for each call

	MaxOutput int64 // the most tokens of one answer of the model; 0 if not known
	// Context is the most tokens that the model reads and writes in one call; 0
	// if not known.
	Context int64
	Image   int64 // the most tokens of one image in a prompt; 0 if not known
}

// PriceFunc returns the price of a model at a time. It returns an
// *limiter.InvalidError that matches ErrNoPrice if there is none.
// [PriceList.Price] is one.
type PriceFunc func(model string, at time.Time) (Price, error)

// ErrNoPrice reports that a model has no price.
var ErrNoPrice = errors.New("the model has no price")

// Cost returns what one call with u costs, in millionths of a dollar. It adds up
// the exact cost of all tokens and rounds the sum up once. A cost that exceeds
// 64 bits is math.MaxInt64.
func (p Price) Cost(u Usage) int64 {
	// The parts of a prompt have no more tokens than the prompt, or tokens
	// would be billed twice.
	input := max(u.Input, 0)
	read := min(max(u.Cached, 0), input)
	written := min(max(u.Written, 0), input-read)

	var sum product
	sum.add(p.Input, input-read-written)
	sum.add(p.CacheRead, read)
	sum.add(p.CacheWrite, written)
	sum.add(p.Output, u.Output)

	tokens, request := sum.perMillion(), max(p.Request, 0)
	if tokens > math.MaxInt64-request {
		return math.MaxInt64
	}
	return tokens + request
}

// maxCost bounds what one call is charged: a million dollars. More is a mistake of
// a server or a price, and a lease cannot be corrected by any amount.
const maxCost = 1_000_000 * perMillion

// charge returns the part of Cost that a call is charged, which is all of it up to
// maxCost.
func (p Price) charge(u Usage) int64 { return min(p.Cost(u), maxCost) }

// outputFor returns the most tokens of an answer that cost at most room.
func (p Price) outputFor(room int64) int64 {
	if p.Output <= 0 {
		return math.MaxInt64
	}

	hi, lo := bits.Mul64(uint64(max(room, 0)), perMillion)
	// Div64 panics if its result exceeds 64 bits.
	if hi >= uint64(p.Output) {
		return math.MaxInt64
	}

	tokens, _ := bits.Div64(hi, lo, uint64(p.Output))
	return int64(min(tokens, math.MaxInt64))
}

// perMillion is the number of tokens that a price is for.
const perMillion = 1_000_000

// product is a sum of prices times tokens, which needs more than 64 bits. Four
// products of positive int64 fit.
type product struct{ hi, lo uint64 }

// add adds a price times a number of tokens, unless one of them is negative.
func (s *product) add(price, tokens int64) {
	if price <= 0 || tokens <= 0 {
		return
	}

	hi, lo := bits.Mul64(uint64(price), uint64(tokens))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi += hi + carry
}

// perMillion returns s divided by a million and rounded up, at most
// math.MaxInt64.
func (s *product) perMillion() int64 {
	// Div64 panics if its result exceeds 64 bits.
	if s.hi >= perMillion {
		return math.MaxInt64
	}

	n, rest := bits.Div64(s.hi, s.lo, perMillion)
	if n >= math.MaxInt64 {
		return math.MaxInt64
	}

	if rest > 0 {
		n++
	}
	return int64(n)
}

// Dollars formats millionths of a dollar with two decimals, or up to six where
// they are needed, such as $12.50 and $0.000125.
func Dollars(millionths int64) string { return figure.Dollars(millionths) }
