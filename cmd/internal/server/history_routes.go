package server

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

var windows = []string{string(limiter.Hourly), string(limiter.Daily), string(limiter.Monthly)}

// agePattern is the form of an age in a query: its number and unit.
const agePattern = "^[1-9][0-9]{0,3}[dhms]$"

var age = regexp.MustCompile(agePattern)

func usageParameters(more ...web.Parameter) []web.Parameter {
	return append([]web.Parameter{
		{Name: "entity_id", Schema: "EntityName", Doc: "only usage of this entity"},
		{Name: "resource", Schema: "ResourceName", Doc: "only usage of this resource"},
		{Name: "window", Words: windows, Doc: "length of the windows"},
		{
			Name: "start", Schema: "Moment",
			Doc: "windows that start at this time or later: a day, a time, or an age such as 24h or 7d",
		},
		{Name: "end", Schema: "Moment", Doc: "windows that start at this time or earlier; none if it is before start"},
	}, more...)
}

// historyRoutes returns the reads of usage and of the audit trail.
func historyRoutes() []route {
	return []route{
		get("listUsage", "/v1/usage", "List usage, newest first", RoleRead,
			usageParameters(
				web.Parameter{
					Name: "after", Schema: "UsagePosition",
					Doc: "continue after this position, as in the link to the next page",
				},
				limitParameter,
			),
			listUsage),
		get("summarizeUsage", "/v1/usage/summary", "Summarize usage", RoleRead, usageParameters(), usageSummary),
		get("listAuditEvents", "/v1/audit", "List audit events, newest first", RoleRead, []web.Parameter{
			{
				Name: "entity_id", Schema: "AuditSubject",
				Doc: "only changes of this entity, of $SYSTEM, or of $RESOURCE: and a resource",
			},
			{Name: "start_event_id", Schema: "EventID", Doc: "only events older than this event"},
			limitParameter,
		}, listAudit),
	}
}

// usageQuery returns the query of the parameters.
func (c *call) usageQuery() (limiter.UsageQuery, error) {
	q := limiter.UsageQuery{
		Entity: c.param("entity_id"), Resource: c.param("resource"), Window: limiter.Window(c.param("window")),
	}

	for name, target := range map[string]*time.Time{"start": &q.From, "end": &q.To} {
		text := c.param(name)
		if text == "" {
			continue
		}
		var err error
		// Times end with a digit or a capital letter, so a small letter at the
		// end is the unit of an age. ParseTime would also take 0 and ages such
		// as 1h30m, which the OpenAPI document does not allow.
		if text[len(text)-1] >= 'a' && !age.MatchString(text) || text == "0" {
			return q, web.Bad("parameter %s: must be an age of at most 4 digits, such as 24h or 7d", name)
		}
		if *target, err = jsonview.ParseTime(c.server.opts.Now(), text); err != nil {
			return q, web.Bad("parameter %s: %v", name, err)
		}
	}

	return q, q.Validate()
}

func listUsage(c *call) ([]jsonview.Usage, error) {
	q, err := c.usageQuery()
	if err != nil {
		return nil, err
	}

	var after jsonview.Position
	if text := c.param("after"); text != "" {
		// The OpenAPI document allows every text here, so that a wrong one must
		// not get 400.
		if after, err = jsonview.ParsePosition(text); err != nil {
			return nil, &httplimit.Problem{
				Status: http.StatusNotFound, Detail: "parameter after: is no position of a link to the next page",
			}
		}
	}

	position := func(s limiter.UsageSnapshot) string { return jsonview.PositionOf(s).String() }
	return collect(c, after.Skip(c.lim.Usage(c.ctx, after.Until(q))), jsonview.NewUsage, "after", position)
}

func usageSummary(c *call) (jsonview.Total, error) {
	q, err := c.usageQuery()
	if err != nil {
		return jsonview.Total{}, err
	}
	q.Window = cmp.Or(q.Window, limiter.Hourly)
	sum, err := c.lim.UsageSummary(c.ctx, q)
	return jsonview.NewTotal(q, sum), err
}

func listAudit(c *call) ([]jsonview.Audit, error) {
	subject := c.param("entity_id")
	if resource, ok := strings.CutPrefix(subject, "$RESOURCE:"); ok {
		if err := checkResource(resource); err != nil {
			return nil, err
		}
	} else if subject != "" && subject != "$SYSTEM" {
		if err := (limiter.Entity{ID: subject}).Validate(); err != nil {
			return nil, err
		}
	}

	before := c.param("start_event_id")
	if before != "" {
		if _, err := jsonview.ParseEvent(before); err != nil {
			return nil, web.Bad("parameter start_event_id: %v", err)
		}
	}

	eventID := func(e limiter.AuditEvent) string { return e.ID }
	return collect(c, c.lim.AuditEvents(c.ctx, subject, before), jsonview.NewAudit, "start_event_id", eventID)
}
