package webdemo

import (
	"iter"
	"net/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// entityBody is a request to create an entity.
type entityBody struct {
	ID       string            `json:"entity_id" doc:"ID, which is also an API key"`
	Name     string            `json:"name,omitempty" doc:"display name; default: the ID"`
	Parent   string            `json:"parent_id,omitempty" doc:"ID of the parent"`
	Cascade  *bool             `json:"cascade,omitempty" doc:"whether the parent pays too; default: true with a parent"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"anything else"`
}

// entityPage is a page of entities, in the order of their IDs.
type entityPage struct {
	Entities []jsonview.Entity `json:"entities" doc:"entities of the page"`
	Next     *string           `json:"next" doc:"value of the parameter after for the next page; null after the last"`
}

func pageParameters() []parameter {
	return []parameter{
		{name: "limit", doc: "most rows of the page, from 1 to 1000", kind: "integer", fallback: "100"},
		{name: "after", doc: "last ID of the page before", kind: "string"},
	}
}

func (h *Handler) entityRoutes() []route {
	return []route{
		get(h, "/api/entities", "List the entities", pageParameters(), func(r *http.Request) (entityPage, error) {
			return readPage(r, h.lim.Entities(r.Context()))
		}),
		change(h, http.MethodPost, "/api/entities", "Create an entity", http.StatusCreated, nil, h.createEntity),
		get(h, "/api/entities/{id}", "Show an entity", nil, func(r *http.Request) (jsonview.Entity, error) {
			e, err := h.lim.Entity(r.Context(), r.PathValue("id"))
			if err != nil {
				return jsonview.Entity{}, err
			}
			return jsonview.NewEntity(e), nil
		}),
		remove(h, "/api/entities/{id}", "Delete an entity with its limits and buckets", nil,
			func(r *http.Request) error {
				if _, err := h.lim.Entity(r.Context(), r.PathValue("id")); err != nil {
					return err
				}
				return h.lim.DeleteEntity(r.Context(), r.PathValue("id"))
			}),
		get(h, "/api/entities/{id}/children", "List the children of an entity", pageParameters(),
			func(r *http.Request) (entityPage, error) {
				if _, err := h.lim.Entity(r.Context(), r.PathValue("id")); err != nil {
					return entityPage{}, err
				}
				return readPage(r, h.lim.Children(r.Context(), r.PathValue("id")))
			}),
	}
}

func (h *Handler) createEntity(r *http.Request, body entityBody) (jsonview.Entity, error) {
	// A child charges its parent unless the request says otherwise.
	cascade := body.Parent != ""
	if body.Cascade != nil {
		cascade = *body.Cascade
	}

	e, err := h.lim.CreateEntity(r.Context(), limiter.Entity{
		ID: body.ID, Name: body.Name, Parent: body.Parent, Cascade: cascade, Metadata: body.Metadata,
	})
	if err != nil {
		return jsonview.Entity{}, err
	}
	return jsonview.NewEntity(e), nil
}

// readPage returns the page of entities that a request asks for.
func readPage(r *http.Request, all iter.Seq2[limiter.Entity, error]) (entityPage, error) {
	page := entityPage{Entities: []jsonview.Entity{}}
	chosen, next, err := onPage(r, all)
	for _, e := range chosen {
		page.Entities = append(page.Entities, jsonview.NewEntity(e))
	}
	page.Next = jsonview.OrNull(next)
	return page, err
}

// onPage returns the entities of a page, and the ID after which the next one
// begins, or "".
func onPage(r *http.Request, all iter.Seq2[limiter.Entity, error]) (page []limiter.Entity, next string, err error) {
	limit, err := numberOf(r, pageParameters()[0], 1, 1000)
	if err != nil {
		return nil, "", err
	}

	after := r.URL.Query().Get("after")
	for e, err := range all {
		switch {
		case err != nil:
			return nil, "", err
		// Entities come in the order of their IDs, so this one was on an
		// earlier page.
		case e.ID <= after:
		// An entity beyond the page shows that there is a next one.
		case int64(len(page)) == limit:
			return page, page[len(page)-1].ID, nil
		default:
			page = append(page, e)
		}
	}

	return page, "", nil
}
