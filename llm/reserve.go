package llm

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go"
)

// ErrUnbounded reports that nothing bounds what a call can cost: it refers to
// input elsewhere and the context of its model is not known, or it sets no
// maximum, may not be changed, and the longest answer of its model is not known.
var ErrUnbounded = errors.New("the cost of the call has no bound")

const (
	defaultMaxOutput = 8192
	// leastOutput is the least maximum that Acquire chooses, however little
	// money is left.
	leastOutput = 256
	// reservedBytes is the number of bytes of a body that reserve a token of
	// the prompt. Text with more tokens than that reserves the excess too.
	reservedBytes = 2
)

// reservation is the most that a call can cost.
type reservation struct {
	usage Usage
	// maxOutput is the maximum that has to be written into the request, for each
	// answer. It is 0 if the call is bounded as it is.
	maxOutput int64
	// predicted is the part of usage.Output for a prediction, which an answer may be
	// billed for beside its maximum.
	predicted int64
	// scarce reports whether more money would make maxOutput larger.
	scarce bool
}

// reserve returns what a call has to reserve where left is left of its budgets.
// The error is an *limiter.InvalidError that matches ErrUnbounded.
func (l *Limiter) reserve(req *Request, price Price, left int64) (reservation, error) {
	if req == nil {
		return reservation{}, nil
	}

	dear := price.dearest()
	input, predicted, err := reservedInput(req, dear)
	if err != nil {
		return reservation{}, err
	}

	r := reservation{usage: Usage{Input: input}, predicted: predicted}
	switch {
	// There is no answer to reserve.
	case req.Format == Embeddings:
	// The maximum of the client is the bound, and a free answer needs none.
	case req.MaxOutput > 0 && req.isBounded() || dear.Output <= 0:
		r.usage.Output = req.MaxOutput
	// Nothing is written into the request, so only the model bounds the answer.
	case l.opts.KeepRequests:
		longest, err := longestAnswer(req, price)
		if err != nil {
			return reservation{}, err
		}
		r.usage.Output = max(longest, req.MaxOutput)
	// The API may ignore the field of this maximum, so the caller writes it
	// into one that the API obeys.
	case req.MaxOutput > 0:
		r.usage.Output, r.maxOutput = req.MaxOutput, req.MaxOutput/max(req.Choices, 1)
	default:
		// The prompt is paid for first. A quarter of the rest leaves money for
		// calls beside this one.
		prompt := dear.Cost(Usage{Input: input, Output: predicted})
		r.maxOutput, r.scarce = l.chooseMaximum(req, price, input, (left-min(prompt, left))/4)
		r.usage.Output = multiplyTokens(r.maxOutput, max(req.Choices, 1))
	}

	r.usage.Output = clampTokens(r.usage.Output + predicted)
	r.usage.Cost = dear.charge(r.usage)
	return r, nil
}

// isBounded reports whether the API obeys the maximum of a request. A field of
// other servers alone bounds nothing where the API ignores it.
func (r *Request) isBounded() bool {
	return len(r.fields.maxima) == 0 || r.sets(r.Format.obeyedMaxima(""))
}

// dearest returns p with the highest price that a token of a prompt can have: what
// a cache does with the prompt is known only afterwards.
func (p Price) dearest() Price {
	p.Input = max(p.Input, p.CacheRead, p.CacheWrite)
	p.CacheRead, p.CacheWrite = p.Input, p.Input
	return p
}

// reservedInput returns the most tokens of a prompt: a token for every two bytes of
// the request, what dense text and tools may need beyond that, and for each image
// what the model needs for one. A body of 54 bytes of words reserves 27 tokens. The
// result is the context of the model if nothing else bounds the prompt: the request
// refers to input that it does not contain, or has a file, or an image of unknown
// tokens.
//
// The tokens of a prediction are returned apart if they cost more as tokens of the
// answer, which they are billed as where the answer differs.
func reservedInput(req *Request, price Price) (input, predicted int64, err error) {
	predicted = req.predictedTokens(price)
	text, excess := req.size, req.excess
	if predicted > 0 {
		text -= req.predictedSize
	} else {
		excess += req.predictedExcess
	}
	// Where the tokens of an image are known, its base64 is not text.
	if price.Image > 0 {
		text -= req.inline.imageBytes
	}

	input = max(req.Prompt, clampTokens((text+reservedBytes-1)/reservedBytes+excess+req.tools+
		multiplyTokens(price.Image, req.inline.images)))

	field, why := unknownInput(req, price)
	switch {
	// A prompt that costs nothing needs no bound.
	case field == "" && price.Context == 0, price.Input <= 0:
		return input, predicted, nil
	case price.Context == 0:
		return 0, 0, unbounded(field,
			fmt.Sprintf("%s the model %.60q has no context in the price list; %s", why, req.Model, remedy(field)))
	case field != "":
		return price.Context, predicted, nil
	}
	return min(input, price.Context), predicted, nil
}

// predictedTokens returns the most tokens of a prediction that every answer may be
// billed for, or 0 if they cost no more as a part of the prompt.
func (r *Request) predictedTokens(price Price) int64 {
	if r.predictedSize == 0 || r.Format == Embeddings || price.Output <= price.Input {
		return 0
	}
	most := (r.predictedSize+reservedBytes-1)/reservedBytes + r.predictedExcess
	if price.Context > 0 {
		most = min(most, price.Context)
	}
	return multiplyTokens(most, max(r.Choices, 1))
}

// inlineImage is the field of an error about an image.
const inlineImage = "image"

// unknownInput returns the field of a request whose tokens are not known before the
// call, and the reason, or "" if there is none.
func unknownInput(req *Request, price Price) (field, why string) {
	switch {
	case req.Reference != "":
		return req.Reference, "refers to input that the request does not contain, and"
	case req.inline.file != "":
		return req.inline.file, "holds a file, whose size does not bound its tokens, and"
	case req.inline.images > 0 && price.Image == 0:
		return inlineImage, "has a size that does not bound its tokens, the price list has no image for the model, and"
	}
	return "", ""
}

// remedy returns what makes a call bounded.
func remedy(field string) string {
	if field == inlineImage {
		return "add image or the context"
	}
	return "send the input as text, or add the context"
}

// longestAnswer returns the most tokens of all answers to a request without a
// maximum.
func longestAnswer(req *Request, price Price) (int64, error) {
	longest := cmp.Or(price.MaxOutput, price.Context)
	if longest == 0 {
		return 0, unbounded(req.MaximumField(), fmt.Sprintf(
			"is missing, and the model %.60q has no max_output in the price list; set a maximum, or add max_output",
			req.Model))
	}
	return multiplyTokens(longest, max(req.Choices, 1)), nil
}

func unbounded(field, reason string) error {
	return &limiter.InvalidError{Field: field, Reason: reason, Err: ErrUnbounded}
}

// chooseMaximum returns the maximum for each answer to a request without one: the
// smallest of what the model can write, what the options allow, and what a share of
// the money left buys, but not less than a short answer needs. If a token costs a
// millionth, a share of 2,000 millionths buys 2,000 tokens, and one of 100 counts as
// 256.
func (l *Limiter) chooseMaximum(req *Request, price Price, input, share int64) (most int64, scarce bool) {
	most = l.opts.MaxOutput
	if price.MaxOutput > 0 {
		most = min(most, price.MaxOutput)
	}
	if price.Context > 0 {
		// Many APIs refuse a maximum that does not fit beside the prompt.
		most = min(most, max(price.Context-input, leastOutput))
	}

	affordable := max(price.outputFor(share)/max(req.Choices, 1), leastOutput)
	return min(most, affordable), affordable < most
}

// fits returns the largest maximum for each answer whose reservation costs at most
// left, or 0 if there is none.
func (r *reservation) fits(req *Request, price Price, left int64) int64 {
	dear := price.dearest()
	prompt := dear.Cost(Usage{Input: r.usage.Input, Output: r.predicted})
	if dear.Output <= 0 || left <= prompt || req.Format == Embeddings {
		return 0
	}
	return min(dear.outputFor(left-prompt)/max(req.Choices, 1), math.MaxInt32)
}
