package llm

import "github.com/zeroae/zae-limiter-go"

// estimate returns what a call may cost.
func (l *Limiter) estimate(entity string, req *Request, names Limits, limits []limiter.Limit) Usage {
	u := Usage{Input: req.Prompt}
	if req.Format == Embeddings {
		return u
	}
	u.Output = req.MaxOutput
	if u.Output == 0 {
		each, ok := l.averages.output(entity, req.Model)
		if !ok {
			each = float64(l.opts.Output)
		}
		u.Output = int64(min(each*float64(max(req.Choices, 1))+0.999, maxTokens)) // rounded up
	}
	if !l.opts.FullEstimate || req.MaxOutput == 0 {
		u.Output = capOutput(u, names, limits)
	}
	return u
}

// capOutput returns the estimate of an answer, at most a quarter of the smallest
// limit that it is charged to: a request may set a maximum that no answer needs,
// and must not be refused for it. For the same reason the estimate of an answer
// alone never exceeds a limit that the prompt fits in.
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
