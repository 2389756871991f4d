package llm

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// estimate returns the tokens that a call may need, if limits are in force, and
// what they cost.
func (l *Limiter) estimate(entity string, req *Request, price Price, names Limits, limits []limiter.Limit) Usage {
	if req == nil {
		return Usage{}
	}

	u := Usage{Input: req.Prompt}
	if req.Format != Embeddings {
		u.Output = l.estimateOutput(entity, req)
		if !l.opts.FullEstimate || req.MaxOutput == 0 {
			u.Output = capOutput(u, names, limits)
		}
	}

	u.Cost = price.charge(u)
	return u
}

// estimateOutput returns how long an answer may be.
func (l *Limiter) estimateOutput(entity string, req *Request) int64 {
	if req.MaxOutput != 0 {
		return req.MaxOutput
	}

	each := l.averages.output(entity, req.Model, float64(l.opts.Output))
	// The sum rounds the product up.
	return int64(min(each*float64(max(req.Choices, 1))+0.999, maxTokens))
}

// capOutput returns the estimate of an answer, at most a quarter of the smallest
// limit of tokens that it is charged to: a request may set a maximum that no answer
// needs, and must not be refused for it. For the same reason the estimate of an
// answer alone never exceeds a limit that the prompt fits in. Beside a prompt of
// 9,000 tokens and a limit of 10,000, a maximum of 5,000 counts as 1,000. Tokens come
// back with time, so that debt is repaid; money is reserved whole.
func capOutput(u Usage, names Limits, limits []limiter.Limit) int64 {
	output := u.Output

	if total := capacity(limits, names.Total); total > 0 {
		output = min(output, max(total/4, 1), max(total-u.Input, 0))
	}

	if most := capacity(limits, names.Output); most > 0 {
		output = min(output, max(most/4, 1))
	}

	return output
}

// averages holds the average length of an answer by entity and model, and for each
// model the averages of the entities that used it last. A call that asks for several
// answers counts as one of their average length.
type averages struct {
	byCaller *recent[caller, float64]
	byModel  *recent[string, []voice]
}

type caller struct{ entity, model string }

// voice is the average of one entity among those of a model.
type voice struct {
	entity string
	output float64
}

const (
	// weight is the share of the latest answer in an average, so that about the last
	// ten answers count. After an answer of 200 tokens, an average of 100 becomes 120.
	weight = 0.2
	voices = 8 // entities that the average of a model consists of
)

func newAverages(limit int) averages {
	return averages{newRecent[caller, float64](limit), newRecent[string, []voice](limit)}
}

// learn adds the length of an answer.
func (a averages) learn(entity, model string, output float64) {
	var own float64

	a.byCaller.update(caller{entity, model}, func(before float64, known bool) float64 {
		if own = output; known {
			own = before + weight*(output-before)
		}
		return own
	})

	a.byModel.update(model, func(before []voice, _ bool) []voice {
		after := slices.DeleteFunc(slices.Clone(before), func(v voice) bool { return v.entity == entity })
		// The entities are in the order of their last answer, so the first one
		// is out of date.
		if len(after) == voices {
			after = after[1:]
		}
		return append(after, voice{entity, own})
	})
}

// output returns the estimate for an entity: its own average, but never less than
// the average of the other entities that use the model, or the default if there are
// none. Otherwise a client could train its estimate down with small calls, and then
// run large ones in parallel.
func (a averages) output(entity, model string, byDefault float64) float64 {
	own, _ := a.byCaller.get(caller{entity, model})
	all, _ := a.byModel.get(model)

	var sum, n float64
	for _, v := range all {
		if v.entity != entity {
			sum += v.output
			n++
		}
	}

	if n == 0 {
		return max(own, byDefault)
	}
	return max(own, sum/n)
}
