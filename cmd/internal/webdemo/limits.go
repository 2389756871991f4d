package webdemo

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// limitJSON is a stored limit.
type limitJSON struct {
	jsonview.Limit
	Rate float64 `json:"refill_rate" doc:"tokens a second: refill_amount / refill_period_seconds; 0 for a quota"`
}

// limitBody is a limit to store, with a rate or with an amount and a period.
type limitBody struct {
	Name     string  `json:"name" doc:"name of the limit"`
	Capacity int64   `json:"capacity" doc:"maximum number of tokens"`
	Rate     float64 `json:"refill_rate,omitempty" doc:"tokens a second, in place of the next two fields"`
	Refill   int64   `json:"refill_amount,omitempty" doc:"tokens refilled every period"`
	Seconds  int64   `json:"refill_period_seconds,omitempty" doc:"length of the period"`
}

// limitsBody is a request to store limits.
type limitsBody struct {
	Limits []limitBody `json:"limits" doc:"all limits of the entity for the resource"`
}

// limitsJSON holds the limits that an entity has stored for a resource.
type limitsJSON struct {
	Entity   string      `json:"entity_id" doc:"ID of the entity"`
	Resource string      `json:"resource" doc:"name of the resource"`
	Limits   []limitJSON `json:"limits" doc:"stored limits; empty if defaults apply"`
}

func resourceParameter() web.Parameter {
	return web.Parameter{Name: "resource", Doc: "name of the model", Default: modelLarge}
}

func resourceOf(query url.Values) string { return cmp.Or(query.Get("resource"), modelLarge) }

func (h *Handler) limitRoutes() []route {
	query := []web.Parameter{resourceParameter()}
	return []route{
		get("/api/limits/{id}", "Show the limits of an entity for a model", query,
			func(c *call) (limitsJSON, error) {
				return h.readLimits(c.Request.Context(), c.Request.PathValue("id"), resourceOf(c.Query))
			}),
		change(http.MethodPut, "/api/limits/{id}", "Replace the limits of an entity for a model", http.StatusOK,
			query, h.setLimits),
		remove("/api/limits/{id}", "Delete the limits of an entity for a model, so that the defaults apply",
			query, func(c *call) error {
				if _, err := h.lim.Entity(c.Request.Context(), c.Request.PathValue("id")); err != nil {
					return err
				}
				return h.lim.DeleteLimits(c.Request.Context(), c.Request.PathValue("id"), resourceOf(c.Query))
			}),
	}
}

func (h *Handler) readLimits(ctx context.Context, id, resource string) (limitsJSON, error) {
	// Limits of an ID without a record are none, but such an ID is a mistake.
	out := limitsJSON{id, resource, []limitJSON{}}
	if _, err := h.lim.Entity(ctx, id); err != nil {
		return out, err
	}

	limits, err := h.lim.Limits(ctx, id, resource)
	for _, l := range limits {
		out.Limits = append(out.Limits, limitJSON{jsonview.NewLimit(l), rateOf(l)})
	}
	return out, err
}

func (h *Handler) setLimits(c *call, body limitsBody) (limitsJSON, error) {
	id, resource := c.Request.PathValue("id"), resourceOf(c.Query)
	if _, err := h.lim.Entity(c.Request.Context(), id); err != nil {
		return limitsJSON{}, err
	}

	limits := make([]limiter.Limit, len(body.Limits))
	for i, b := range body.Limits {
		l, err := b.limit()
		if err != nil {
			return limitsJSON{}, err
		}
		limits[i] = l
	}

	if err := h.lim.SetLimits(c.Request.Context(), id, resource, limits...); err != nil {
		return limitsJSON{}, err
	}
	return h.readLimits(c.Request.Context(), id, resource)
}

// limit returns the limit of a request.
func (b limitBody) limit() (limiter.Limit, error) {
	given := b.Refill != 0 || b.Seconds != 0
	switch {
	case b.Rate != 0 && given:
		return limiter.Limit{}, web.Bad(
			"limit %.64s: give refill_rate, or refill_amount and refill_period_seconds, not both", b.Name,
		)
	case given:
		return limiter.Custom(b.Name, b.Capacity, b.Refill, time.Duration(min(b.Seconds, maxPeriod))*time.Second), nil
	}

	amount, seconds, ok := exactRate(b.Rate)
	if !ok {
		return limiter.Limit{}, web.Bad(
			"limit %.64s: refill_rate must be the rate of a whole number of tokens every 1 to %d seconds; "+
				"give refill_amount and refill_period_seconds for another",
			b.Name, maxRatePeriod,
		)
	}
	return limiter.Custom(b.Name, b.Capacity, amount, time.Duration(seconds)*time.Second), nil
}

// maxRatePeriod bounds the period that a rate can stand for: a day. maxPeriod
// bounds any period, so that it fits a time.Duration.
const (
	maxRatePeriod = 86_400
	maxPeriod     = math.MaxInt64 / int64(time.Second)
)

// exactRate returns the shortest period with a whole number of tokens whose rate
// is exactly rate. So a rate that was read can be stored again, and nothing is
// rounded.
func exactRate(rate float64) (amount, seconds int64, ok bool) {
	// NaN is not above 0, so it is refused here, too.
	if !(rate > 0) || rate > 1<<40 {
		return 0, 0, false
	}

	for seconds = 1; seconds <= maxRatePeriod; seconds++ {
		amount = int64(math.Round(rate * float64(seconds)))
		if amount > 0 && float64(amount)/float64(seconds) == rate {
			return amount, seconds, true
		}
	}
	return 0, 0, false
}

// rateOf returns the tokens a second of a limit, 0 for a quota.
func rateOf(l limiter.Limit) float64 {
	if l.IsQuota() {
		return 0
	}
	return float64(l.Refill) / l.Period.Seconds()
}
