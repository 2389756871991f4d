package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// longestRetry is the longest wait that clients should retry after. The SDKs try
// again within seconds if they are asked to wait for longer.
const longestRetry = time.Minute

// inDollars makes a refusal by the limit of cost an answer that names dollars, the
// maximum that would fit, and when open calls may have given money back. The
// numbers for programs stay millionths.
func (p *Proxy) inDollars(err error) error {
	refusal, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok || p.cost == "" {
		return err
	}

	problem := httplimit.NewProblem(err)
	// NewProblem joins the reasons with this separator, in the order of the
	// violations.
	const separator = "; "
	reasons := strings.Split(problem.Detail, separator)
	violations := refusal.Decision.Violations()
	// A client learns no amounts of its project, so the text about a limit of
	// the parent stays.
	for i, s := range violations {
		own := s.Entity == refusal.Decision.Statuses[0].Entity
		if s.Limit.Name == p.cost && own && i < len(reasons) {
			reasons[i] = describeCost(&s)
		}
	}

	// What follows the reasons is advice on when to retry.
	if spend, ok := errors.AsType[*llm.SpendError](err); ok {
		end := min(len(violations), len(reasons))
		// The bound on the capacity makes append copy, so that it does not
		// overwrite the advice.
		reasons = append(reasons[:end:end], adviseSpend(problem, spend, reasons[end:])...)
	}

	problem.Detail = strings.Join(reasons, separator)
	return errors.Join(err, problem)
}

// adviseSpend returns what a client can do about a refusal by the limit of cost: ask
// for less, or retry when the calls under way have ended, instead of when the
// window ends, as advice says.
func adviseSpend(problem *httplimit.Problem, spend *llm.SpendError, advice []string) []string {
	if spend.RetryAfter > 0 {
		// The header Retry-After has whole seconds.
		problem.RetryAfter = (spend.RetryAfter + time.Second - 1).Truncate(time.Second)
		advice = []string{fmt.Sprintf("calls under way hold the rest; retry after %.0fs", problem.RetryAfter.Seconds())}
	}

	if spend.MaxOutput > 0 {
		advice = append([]string{fmt.Sprintf("a %s of %d would fit", spend.Field, spend.MaxOutput)}, advice...)
	}
	return advice
}

// describeCost describes an exceeded limit of cost.
func describeCost(s *limiter.Status) string {
	needs := s.Limit.Name + ": the request needs " + llm.Dollars(s.Requested) + ", "
	budget := llm.Dollars(s.Limit.Capacity)

	switch {
	case s.NeverFits:
		return needs + "above the budget of " + budget
	// A call that costs nothing, such as a list of files, needs no money and is
	// refused for debt alone.
	case s.Available < 0 && s.Requested == 0:
		return fmt.Sprintf("%s: the budget of %s is in debt by %s", s.Limit.Name, budget, llm.Dollars(-s.Available))
	case s.Available < 0:
		return needs + fmt.Sprintf("and the budget of %s is in debt by %s", budget, llm.Dollars(-s.Available))
	}

	return needs + fmt.Sprintf("and %s of %s are available%s", llm.Dollars(s.Available), budget,
		windowText(s.Limit.Window))
}

// windowText returns the window of a budget, such as " this month".
func windowText(window limiter.Calendar) string {
	switch text := window.String(); text {
	case "":
		return ""
	case limiter.EveryDay.String():
		return " today"
	default:
		return " this " + text
	}
}

// refusedBy returns the other entity whose limit refused a call, such as the
// project of a key, or "".
func refusedBy(err error, entity string) string {
	refusal, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		return ""
	}

	for _, s := range refusal.Decision.Violations() {
		if s.Entity != entity {
			return s.Entity
		}
	}
	return ""
}
