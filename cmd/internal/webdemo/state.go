package webdemo

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"reflect"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// stateJSON is a page of entities with their balances.
type stateJSON struct {
	Entities []entityState `json:"entities" doc:"entities of the page, in the order of their IDs"`
	Next     *string       `json:"next" doc:"value of the parameter after for the next page; null after the last"`
}

// entityState is an entity with its balances for one resource.
type entityState struct {
	ID       string         `json:"entity_id" doc:"ID of the entity"`
	Name     string         `json:"name" doc:"display name"`
	Parent   *string        `json:"parent_id" doc:"ID of the parent"`
	Cascade  bool           `json:"cascade" doc:"whether the parent pays too"`
	Resource string         `json:"resource" doc:"name of the model"`
	Limits   []limitBalance `json:"limits" doc:"limits in force with their balance"`
}

// limitBalance is the balance of one limit.
type limitBalance struct {
	limitJSON
	Available   int64   `json:"available" doc:"tokens left; negative is debt"`
	Utilization float64 `json:"utilization_pct" doc:"used part of the capacity in percent, 0 to 100, to one decimal"`
	FullAfter   float64 `json:"full_after_seconds" doc:"time until the bucket is full"`
}

type availabilityJSON struct {
	Entity    string           `json:"entity_id" doc:"ID of the entity"`
	Resource  string           `json:"resource" doc:"name of the model"`
	Available map[string]int64 `json:"available" doc:"tokens left by limit; negative is debt"`
}

type waitJSON struct {
	Seconds   *float64 `json:"wait_seconds" doc:"time until the amounts are available: 0 if now, null if never"`
	NeverFits bool     `json:"never_fits" doc:"whether an amount is above a capacity"`
}

func (h *Handler) stateRoutes() []route {
	resource := []web.Parameter{resourceParameter()}
	wait := []web.Parameter{
		resourceParameter(),
		{Name: limiter.RPM, Doc: "requests", Type: "integer", Default: "1"},
		{Name: limiter.TPM, Doc: "tokens", Type: "integer", Default: "100"},
	}

	return []route{
		get("/api/dashboard/entities", "Show the balances of all entities",
			append(pageParameters(), resource...), func(c *call) (stateJSON, error) {
				page, next, err := onPage(c, h.lim.Entities(c.Request.Context()))
				if err != nil {
					return stateJSON{}, err
				}
				state, err := h.readState(c.Request.Context(), page, resourceOf(c.Query))
				state.Next = jsonview.OrNull(next)
				return state, err
			}),
		get("/api/dashboard/availability/{id}", "Show the tokens that an entity has left", resource,
			h.readAvailability),
		get("/api/dashboard/wait-time/{id}", "Show how long an entity has to wait for tokens", wait,
			func(c *call) (waitJSON, error) {
				return h.readWait(c, wait[1], wait[2])
			}),
		{
			Route: web.Route[*call]{
				Method: http.MethodGet, Path: "/api/dashboard/stream",
				Summary:    "Stream the balances of all entities, every second",
				Parameters: resource, Answer: reflect.TypeFor[stateJSON](),
			},
			status: http.StatusOK, media: "text/event-stream", serve: h.streamState,
		},
	}
}

// readState returns the balances of entities.
func (h *Handler) readState(ctx context.Context, entities []limiter.Entity, resource string) (stateJSON, error) {
	out := stateJSON{Entities: []entityState{}}
	for _, e := range entities {
		state := entityState{e.ID, e.Name, jsonview.OrNull(e.Parent), e.Cascade, resource, []limitBalance{}}

		d, err := h.lim.Explain(ctx, limiter.Request{Entity: e.ID, Resource: resource})
		if err != nil {
			return out, err
		}

		// The limits of a key's project are in its decision, too.
		for _, s := range d.Statuses {
			if s.Entity == e.ID {
				state.Limits = append(state.Limits, newBalance(s))
			}
		}
		out.Entities = append(out.Entities, state)
	}
	return out, nil
}

func newBalance(s limiter.Status) limitBalance {
	used := 100 * float64(s.Limit.Capacity-s.Available) / float64(s.Limit.Capacity)
	return limitBalance{
		limitJSON{jsonview.NewLimit(s.Limit), rateOf(s.Limit)},
		s.Available,
		math.Round(10*min(max(used, 0), 100)) / 10, jsonview.Seconds(s.FullAfter),
	}
}

func (h *Handler) readAvailability(c *call) (availabilityJSON, error) {
	out := availabilityJSON{c.Request.PathValue("id"), resourceOf(c.Query), map[string]int64{}}
	e, err := h.lim.Entity(c.Request.Context(), out.Entity)
	if err != nil {
		return out, err
	}

	state, err := h.readState(c.Request.Context(), []limiter.Entity{e}, out.Resource)
	if err != nil {
		return out, err
	}

	for _, l := range state.Entities[0].Limits {
		out.Available[l.Name] = l.Available
	}
	return out, nil
}

func (h *Handler) readWait(c *call, requests, tokens web.Parameter) (waitJSON, error) {
	if _, err := h.lim.Entity(c.Request.Context(), c.Request.PathValue("id")); err != nil {
		return waitJSON{}, err
	}

	var amounts limiter.Amounts
	for _, p := range []web.Parameter{requests, tokens} {
		n, err := rules.Whole(c.Query, p, 0, 1<<40)
		if err != nil {
			return waitJSON{}, err
		}
		amounts = amounts.And(p.Name, n)
	}

	d, err := h.lim.Explain(c.Request.Context(), limiter.Request{
		Entity: c.Request.PathValue("id"), Resource: resourceOf(c.Query), Consume: amounts,
	})
	if err != nil {
		return waitJSON{}, err
	}

	if d.NeverFits() {
		return waitJSON{NeverFits: true}, nil
	}
	seconds := jsonview.Seconds(d.RetryAfter())
	return waitJSON{Seconds: &seconds}, nil
}

// maxStreams bounds the streams of the state. Each reads the store every second.
const maxStreams = 64

var errStreams = &httplimit.Problem{
	Status: http.StatusServiceUnavailable, Detail: "too many streams are open; close one", RetryAfter: time.Second,
}

// streamState sends the state every second until the client leaves or the handler
// closes. An error of the store is an event of its own, and the stream goes on.
func (h *Handler) streamState(w http.ResponseWriter, r *http.Request) {
	query, err := rules.ParseQuery(r, []web.Parameter{resourceParameter()})
	if err != nil {
		h.fail(w, r, err)
		return
	}

	// After Close, no stream may begin.
	if h.ended.Err() != nil {
		h.fail(w, r, errStreams)
		return
	}
	all := web.Bound{Most: maxStreams, Full: errStreams}
	if err := h.streams.Take(1, all); err != nil {
		h.fail(w, r, err)
		return
	}
	defer h.streams.Give(1, all)

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ended, cancel)() //nolint:contextcheck // Close ends all streams

	events := web.NewEvents(w, writeTime)
	for {
		if err := events.Send([]byte("data: " + h.stateEvent(ctx, resourceOf(query)) + "\n\n")); err != nil {
			return
		}
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}

// stateEvent returns the state of the first entities as JSON, or the error.
func (h *Handler) stateEvent(ctx context.Context, resource string) string {
	// A stream reads the store every second, so it shows no more than a page.
	var first []limiter.Entity
	for e, err := range h.lim.Entities(ctx) {
		if err != nil {
			return h.errorEvent(err)
		}
		if first = append(first, e); len(first) == 100 {
			break
		}
	}

	state, err := h.readState(ctx, first, resource)
	if err != nil {
		return h.errorEvent(err)
	}

	text, _ := json.Marshal(state)
	return string(text)
}

func (h *Handler) errorEvent(err error) string {
	text, _ := json.Marshal(map[string]string{"error": newProblem(err).Error()})
	return string(text)
}
