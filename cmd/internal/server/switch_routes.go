package server

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// levelBody names a level.
type levelBody struct {
	Entity   *string `json:"entity_id,omitempty" schema:"EntityName" doc:"entity of the level"`
	Resource *string `json:"resource,omitempty" schema:"ResourceName" doc:"resource of the level"`
	All      bool    `json:"all,omitempty" doc:"true for everything in the namespace, without an entity and a resource"`
}

// disableBody switches a level off.
type disableBody struct {
	Entity   *string `json:"entity_id,omitempty" schema:"EntityName" doc:"entity of the level"`
	Resource *string `json:"resource,omitempty" schema:"ResourceName" doc:"resource of the level"`
	All      bool    `json:"all,omitempty" doc:"true for everything in the namespace, without an entity and a resource"`
	Reason   string  `json:"reason,omitempty" schema:"Reason" doc:"why, for people"`
}

// levelState is a level after a change.
type levelState struct {
	Level    string     `json:"level" doc:"entity (with a resource), entity_default (without one), resource or system"`
	Entity   *string    `json:"entity_id" doc:"entity of the level"`
	Resource *string    `json:"resource" doc:"resource of the level"`
	Disabled bool       `json:"disabled" doc:"whether the level is off"`
	Reason   *string    `json:"reason" doc:"why it is off"`
	Since    *time.Time `json:"since" doc:"time since when it is off"`
}

func newLevelState(of limiter.Scope, off *limiter.Switch) levelState {
	state := levelState{
		Level: of.Level(), Entity: jsonview.OrNull(of.Entity), Resource: jsonview.OrNull(of.Resource),
		Disabled: off != nil,
	}

	if off != nil {
		state.Reason, state.Since = jsonview.OrNull(off.Reason), jsonview.TimeOrNull(off.Since)
	}
	return state
}

// switchRoutes returns the calls about levels that are off.
func switchRoutes() []route {
	return []route{
		post("disable", "/v1/disable", "Switch a level off: its calls get 403", RoleAdmin, true, disable),
		post("enable", "/v1/enable", "Switch a level on again", RoleAdmin, true, enable),
		get("listSwitches", "/v1/switches", "List the levels that are off", RoleRead,
			[]web.Parameter{
				{Name: "after", Schema: "After", Doc: "continue after this position, as in the link to the next page"},
				limitParameter,
			},
			listSwitches),
	}
}

// scope returns the level. Only all: true means the whole namespace, since a body that
// names nothing may be a mistake.
func (b levelBody) scope() (limiter.Scope, error) {
	var of limiter.Scope
	for name, field := range map[string]struct{ from, to *string }{
		"entity_id": {b.Entity, &of.Entity}, "resource": {b.Resource, &of.Resource},
	} {
		if field.from == nil {
			continue
		}
		// An empty name would widen the level to every entity or resource.
		if *field.from == "" {
			return of, web.Bad("body: field %s: must not be empty; leave it out", name)
		}
		*field.to = *field.from
	}
	if b.All == (of == limiter.Scope{}) {
		return of, nil
	}
	return of, web.Bad("body: give entity_id, resource or both, or all: true for everything in the namespace")
}

func disable(c *call, body disableBody) (levelState, error) {
	of, err := levelBody{body.Entity, body.Resource, body.All}.scope()
	if err != nil {
		return levelState{}, err
	}

	if err := c.lim.As(c.by.Name).Disable(c.ctx, of, body.Reason); err != nil {
		return levelState{}, err
	}

	off, err := jsonview.ReadSwitch(c.ctx, c.lim, of)
	return newLevelState(of, off), err
}

func enable(c *call, body levelBody) (levelState, error) {
	of, err := body.scope()
	if err != nil {
		return levelState{}, err
	}

	err = c.lim.As(c.by.Name).Enable(c.ctx, of)
	// ErrNotFound has two causes: the namespace is gone, or the level is on.
	if errors.Is(err, limiter.ErrNotFound) {
		if gone := c.server.checkNamespace(c.ctx, c.by, err); errors.Is(gone, errNamespace) {
			return levelState{}, gone
		}
		err = &httplimit.Problem{Status: http.StatusNotFound, Detail: "the level is not disabled"}
	}

	return newLevelState(of, nil), err
}

func listSwitches(c *call) ([]jsonview.Switch, error) {
	after, from := c.param("after"), limiter.Scope{}
	from.Entity, from.Resource, _ = strings.Cut(after, ",") // no name has a comma

	rows := func(yield func(limiter.Switch, error) bool) {
		for s, err := range c.lim.Switches(c.ctx) {
			old := err == nil && after != "" && cmp.Or(cmp.Compare(s.Scope.Entity, from.Entity),
				cmp.Compare(s.Scope.Resource, from.Resource)) <= 0
			if !old && !yield(s, err) {
				return
			}
		}
	}

	return collect(c, rows, jsonview.NewSwitch, "after", func(s limiter.Switch) string {
		return s.Scope.Entity + "," + s.Scope.Resource
	})
}
