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
	resource := []parameter{resourceParameter()}
	wait := []parameter{
		resourceParameter(),
		{name: limiter.RPM, doc: "requests", kind: "integer", fallback: "1"},
		{name: limiter.TPM, doc: "tokens", kind: "integer", fallback: "100"},
	}

	return []route{
		get(h, "/api/dashboard/entities", "Show the balances of all entities",
			append(pageParameters(), resource...), func(r *http.Request) (stateJSON, error) {
				page, next, err := onPage(r, h.lim.Entities(r.Context()))
				if err != nil {
					return stateJSON{}, err
				}
				state, err := h.readState(r.Context(), page, resourceOf(r))
				state.Next = jsonview.OrNull(next)
				return state, err
			}),
		get(h, "/api/dashboard/availability/{id}", "Show the tokens that an entity has left", resource,
			h.readAvailability),
		get(h, "/api/dashboard/wait-time/{id}", "Show how long an entity has to wait for tokens", wait,
			func(r *http.Request) (waitJSON, error) {
				return h.readWait(r, wait[1], wait[2])
			}),
		{
			method: http.MethodGet, path: "/api/dashboard/stream",
			summary: "Stream the balances of all entities, every second", query: resource,
			answer: reflect.TypeFor[stateJSON](), status: http.StatusOK, media: "text/event-stream",
			serve: h.streamState,
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

func (h *Handler) readAvailability(r *http.Request) (availabilityJSON, error) {
	out := availabilityJSON{r.PathValue("id"), resourceOf(r), map[string]int64{}}
	e, err := h.lim.Entity(r.Context(), out.Entity)
	if err != nil {
		return out, err
	}

	state, err := h.readState(r.Context(), []limiter.Entity{e}, out.Resource)
	if err != nil {
		return out, err
	}

	for _, l := range state.Entities[0].Limits {
		out.Available[l.Name] = l.Available
	}
	return out, nil
}

func (h *Handler) readWait(r *http.Request, requests, tokens parameter) (waitJSON, error) {
	if _, err := h.lim.Entity(r.Context(), r.PathValue("id")); err != nil {
		return waitJSON{}, err
	}

	var amounts limiter.Amounts
	for _, p := range []parameter{requests, tokens} {
		n, err := numberOf(r, p, 0, 1<<40)
		if err != nil {
			return waitJSON{}, err
		}
		amounts = amounts.And(p.name, n)
	}

	d, err := h.lim.Explain(r.Context(), limiter.Request{
		Entity: r.PathValue("id"), Resource: resourceOf(r), Consume: amounts,
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

// streamState sends the state every second until the client leaves or the handler
// closes. An error of the store is an event of its own, and the stream goes on.
func (h *Handler) streamState(w http.ResponseWriter, r *http.Request) {
	if err := checkQuery(r, []parameter{resourceParameter()}); err != nil {
		h.fail(w, r, err)
		return
	}

	// Add comes before the check, so that two streams cannot both take the last
	// place. After Close, no stream may begin.
	if h.streams.Add(1) > maxStreams || h.ended.Err() != nil {
		h.streams.Add(-1)
		h.fail(w, r, &httplimit.Problem{
			Status: http.StatusServiceUnavailable, Detail: "too many streams are open; close one",
			RetryAfter: time.Second,
		})
		return
	}

	defer h.streams.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ended, cancel)() //nolint:contextcheck // Close ends all streams

	send := startStream(w)
	for {
		if err := send([]byte("data: " + h.stateEvent(ctx, resourceOf(r)) + "\n\n")); err != nil {
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
