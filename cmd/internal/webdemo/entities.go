package webdemo

import (
	"iter"
	"net/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
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

func pageParameters() []web.Parameter {
	return []web.Parameter{
		{Name: "limit", Doc: "most rows of the page, from 1 to 1000", Type: "integer", Default: "100"},
		{Name: "after", Doc: "last ID of the page before"},
	}
}

func (h *Handler) entityRoutes() []route {
	return []route{
		get("/api/entities", "List the entities", pageParameters(), func(c *call) (entityPage, error) {
			return readPage(c, h.lim.Entities(c.Request.Context()))
		}),
		change(http.MethodPost, "/api/entities", "Create an entity", http.StatusCreated, nil, h.createEntity),
		get("/api/entities/{id}", "Show an entity", nil, func(c *call) (jsonview.Entity, error) {
			e, err := h.lim.Entity(c.Request.Context(), c.Request.PathValue("id"))
			if err != nil {
				return jsonview.Entity{}, err
			}
			return jsonview.NewEntity(e), nil
		}),
		remove("/api/entities/{id}", "Delete an entity with its limits and buckets", nil,
			func(c *call) error {
				if _, err := h.lim.Entity(c.Request.Context(), c.Request.PathValue("id")); err != nil {
					return err
				}
				return h.lim.DeleteEntity(c.Request.Context(), c.Request.PathValue("id"))
			}),
		get("/api/entities/{id}/children", "List the children of an entity", pageParameters(),
			func(c *call) (entityPage, error) {
				if _, err := h.lim.Entity(c.Request.Context(), c.Request.PathValue("id")); err != nil {
					return entityPage{}, err
				}
				return readPage(c, h.lim.Children(c.Request.Context(), c.Request.PathValue("id")))
			}),
	}
}

func (h *Handler) createEntity(c *call, body entityBody) (jsonview.Entity, error) {
	// A child charges its parent unless the request says otherwise.
	cascade := body.Parent != ""
	if body.Cascade != nil {
		cascade = *body.Cascade
	}

	e, err := h.lim.CreateEntity(c.Request.Context(), limiter.Entity{
		ID: body.ID, Name: body.Name, Parent: body.Parent, Cascade: cascade, Metadata: body.Metadata,
	})
	if err != nil {
		return jsonview.Entity{}, err
	}
	return jsonview.NewEntity(e), nil
}

// readPage returns the page of entities that a request asks for.
func readPage(c *call, all iter.Seq2[limiter.Entity, error]) (entityPage, error) {
	page := entityPage{Entities: []jsonview.Entity{}}
	chosen, next, err := onPage(c, all)
	for _, e := range chosen {
		page.Entities = append(page.Entities, jsonview.NewEntity(e))
	}
	page.Next = jsonview.OrNull(next)
	return page, err
}

// onPage returns the entities of a page, and the ID after which the next one
// begins, or "".
func onPage(c *call, all iter.Seq2[limiter.Entity, error]) (page []limiter.Entity, next string, err error) {
	limit, err := rules.Whole(c.Query, pageParameters()[0], 1, 1000)
	if err != nil {
		return nil, "", err
	}

	after := c.Query.Get("after")
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
