package llm

import "github.com/zeroae/zae-limiter-go"

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
