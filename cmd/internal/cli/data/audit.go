package data

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newAudit(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("audit", "Show the audit trail",
		"Show the audit trail, which records every change of entities and stored limits\nwith its author.")

	conn.AddNamespace(cmd)
	cmd.AddCommand(newAuditList(conn))
	return cmd
}

type auditOptions struct {
	*kit.Connection
	entity, resource, after string
	system, json            bool
	limit                   int
}

func newAuditList(conn *kit.Connection) *cobra.Command {
	o := auditOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List audit events",
		Long: `List the changes of an entity, of the defaults of a resource or of the defaults
of the system, newest first. Without a filter, list the latest changes of the
namespace; a DynamoDB table with more than 100,000 events needs a filter. The
details say what was set: limits, amounts, reasons. --json has them as stored.`,
		Example: `  zae-limiter audit list
  zae-limiter audit list --entity-id key-abc
  zae-limiter audit list --resource gpt-4
  zae-limiter audit list --system --limit 10`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAuditList(cmd.Context(), o) },
	}

	flags := cmd.Flags()
	flags.StringVarP(&o.entity, "entity-id", "e", "", "only changes of this `entity`")
	flags.StringVarP(&o.resource, "resource", "r", "", "only changes of the defaults of this `resource`")
	flags.BoolVar(&o.system, "system", false, "only changes of the defaults of the system")
	kit.AddFlag(cmd, &o.after, "start-event-id", "id", "", "only events older than this event", jsonview.ParseEvent)
	exclusiveFlags(cmd, "entity-id", "resource", "system")

	_ = cmd.RegisterFlagCompletionFunc("entity-id", conn.CompleteEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.CompleteResources)

	addRowLimit(cmd, &o.limit, "l", 100)
	kit.AddJSON[jsonview.Audit](cmd, &o.json, kit.AnArray, auditColumns)
	return cmd
}

var auditColumns = []kit.Column{
	{Title: "timestamp", Whole: true},
	{Title: "action", Whole: true},
	{Title: "principal"},
	{Title: "resource"},
	{Title: "event id", Whole: true, Spare: true},
	{Title: "entity"},
	{Title: "details", Extra: true},
}

// auditDetails returns the cell of what was changed. A table shows it in words, and a
// line in the form of the flags.
func auditDetails(e limiter.AuditEvent) kit.Cell {
	var parts detailWords
	for _, d := range []struct{ key, prefix string }{
		{"name", "name "},
		{"parent_id", "parent "},
		{"reason", ""},
		{"id", ""},
		{"on_unavailable", "on_unavailable "},
	} {
		// An entity without a name of its own is stored with its ID as name,
		// which the entity column shows already.
		if s, ok := e.Details[d.key].(string); ok && s != "" && (d.key != "name" || s != e.Entity) {
			parts.add(kit.Text(d.prefix + s))
		}
	}

	if cascade, _ := e.Details["cascade"].(bool); cascade {
		parts.add(kit.Text("cascade"))
	}

	metadata, _ := e.Details["metadata"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		parts.add(kit.Text(fmt.Sprint(name, "=", metadata[name])))
	}

	limits, _ := e.Details["limits"].([]any)
	for _, limit := range limits {
		parts.add(limitDetail(limit))
	}

	amounts, _ := e.Details["amounts"].(map[string]any)
	for _, limit := range slices.Sorted(maps.Keys(amounts)) {
		n, _ := amounts[limit].(int64)
		of := kit.Amount(limit, n)
		parts.add(kit.Cell{Display: limit + "=" + of.Display, Plain: limit + "=" + of.Plain})
	}
	return parts.join()
}

// limitDetail returns the cell of a limit in the details of an event: the whole
// limit, or only its name if the event has no more.
func limitDetail(detail any) kit.Cell {
	// The event of a reset holds the names of its limits, and no more of them.
	if stored, ok := detail.(map[string]any); ok {
		var l limiter.Limit
		if encoded, err := json.Marshal(stored); err == nil && json.Unmarshal(encoded, &l) == nil {
			return kit.Cell{Display: kit.LimitText(l), Plain: kit.LimitWord(l)}
		}
	}
	return kit.Text(fmt.Sprint(detail))
}

// detailWords collects the parts of a cell.
type detailWords struct{ shown, plain []string }

func (w *detailWords) add(c kit.Cell) {
	w.shown, w.plain = append(w.shown, c.Display), append(w.plain, c.Plain)
}

func (w *detailWords) join() kit.Cell {
	return kit.Cell{
		Display: kit.Text(strings.Join(w.shown, ", ")).Display,
		Plain:   kit.Text(strings.Join(w.plain, ", ")).Plain,
	}
}

func runAuditList(ctx context.Context, o auditOptions) error {
	subject, err := o.subject()
	if err != nil {
		return err
	}

	columns := slices.Clone(auditColumns)

	// With a subject, every row would repeat it in the entity column.
	if subject != "" {
		columns[slices.IndexFunc(columns, func(c kit.Column) bool { return c.Title == "entity" })].Spare = true
	}

	list := kit.Listing[limiter.AuditEvent]{
		Columns: columns,
		Row: func(e limiter.AuditEvent) []kit.Cell {
			return []kit.Cell{
				kit.Moment(e.At), kit.Text(e.Action), kit.Text(e.Principal), auditResource(e), kit.Text(e.ID),
				auditSubject(e.Entity), auditDetails(e),
			}
		},
		Object:  func(e limiter.AuditEvent) any { return jsonview.NewAudit(e) },
		Nothing: "There are no events" + ofSubject(subject) + ".",
	}

	if o.after != "" {
		list.Nothing = "There are no older events" + ofSubject(subject) + "."
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		more := ""

		rows := jsonview.First(lim.AuditEvents(ctx, subject, o.after), o.limit, func(last limiter.AuditEvent) {
			more = last.ID
		})

		if err := list.Print(o.Console, o.json, rows); err != nil || more == "" {
			return err
		}

		o.Say("There are more; continue with --start-event-id %s", more)
		return nil
	})
}

func ofSubject(subject string) string {
	switch subject {
	case "":
		return ""
	case systemSubject:
		return " of the system"
	}
	return " of " + auditSubject(subject).Display
}

// Subjects of the audit trail that are no entities.
const systemSubject, resourceSubject = "$SYSTEM", "$RESOURCE:"

// auditSubject returns the cell of the subject of an event. A table has words, and a
// line has the name in the trail.
func auditSubject(subject string) kit.Cell {
	cell := kit.Text(subject)
	if resource, ok := strings.CutPrefix(subject, resourceSubject); ok {
		cell.Display = kit.Text("resource " + resource).Display
	} else if subject == systemSubject {
		cell.Display = "system"
	}
	return cell
}

// auditResource returns the cell of the resource of an event.
func auditResource(e limiter.AuditEvent) kit.Cell {
	cell := kit.Text(e.Resource)
	if e.Resource == jsonview.AllResources {
		cell.Display = "all resources"
	}
	return cell
}

// subject returns the subject of the events to list as the audit trail names it,
// or "" for all.
func (o auditOptions) subject() (string, error) {
	switch {
	case o.system || o.entity == systemSubject:
		return systemSubject, nil
	case o.resource != "":
		if err := checkResource(o.resource); err != nil {
			return "", kit.Usagef("%v", err)
		}
		return resourceSubject + o.resource, nil
	case o.entity == "":
		return "", nil
	}

	// An ID such as $RESOURCE:gpt-4 comes from the lines or the JSON of this
	// command, and is no valid entity.
	if resource, ok := strings.CutPrefix(o.entity, resourceSubject); ok {
		o.resource = resource
		return o.subject()
	}

	if err := (limiter.Entity{ID: o.entity}).Validate(); err != nil {
		return "", kit.Usagef("%v", err)
	}
	return o.entity, nil
}
