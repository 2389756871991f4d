package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type statusOptions struct {
	*kit.Stack
	json bool
}

func newStatus(c *kit.Console) *cobra.Command {
	o := &statusOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a stack",
		Long: `Show the status of a stack: whether its table answers, the table's indexes,
stream and size, the functions and their event source, dead letters, alarms,
versions, policies, and hints about cost. A part that cannot be read shows the
reason. The exit code is 1 if limits do not work or the stack has failed.

` + kit.StackHelp,
		Example: "  zae-limiter status --name my-app\n  zae-limiter status -n my-app --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), o) },
	}

	o.AddTo(cmd)
	kit.AddJSON[infra.Status](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runStatus(ctx context.Context, o *statusOptions) error {
	name, opts, err := o.Target()
	if err != nil {
		return err
	}

	s, err := infra.Inspect(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	for i, problem := range s.Problems {
		s.Problems[i] = hint.Words(problem, s.Remedies)
	}
	s.Versions.Refused = hint.Words(s.Versions.Refused, s.Remedies)

	if o.json {
		err = o.PrintJSON(s)
	} else {
		_, err = io.WriteString(o.Out, o.sections(&s))
	}

	return cmp.Or(err, o.verdict(&s))
}

// verdict reports the status in a sentence. It returns an error if limits do not
// work.
func (o *statusOptions) verdict(s *infra.Status) error {
	why := strings.Join(s.Problems, "; ")
	switch s.Verdict {
	case infra.Ready:
		o.Done("%s is ready", s.Name)
	case infra.Changing:
		o.Say("%s is changing: %s", s.Name, why)
	case infra.Degraded, infra.Uncertain:
		o.Warn("%s works, but: %s", s.Name, why)
	default:
		return errors.New(s.Name + " is " + string(s.Verdict) + ": " + why)
	}
	return nil
}

// statusPart is a section of the status.
type statusPart struct {
	title      string
	properties []kit.Property
}

func (o *statusOptions) sections(s *infra.Status) string {
	var b strings.Builder
	for i, part := range statusSections(s) {
		if len(part.properties) == 0 {
			continue
		}
		if o.Terminal && i > 0 {
			b.WriteString("\n")
		}
		if o.Terminal {
			b.WriteString(o.Style.Bold(part.title) + "\n")
		}

		wide := 16
		for _, f := range part.properties {
			wide = max(wide, tty.Width(f.Name))
		}

		for j, f := range part.properties {
			if isCommonReason(s, f) {
				// A function and its event source share a section.
				if j > 0 && isCommonReason(s, part.properties[j-1]) {
					continue
				}
				f.Value = kit.Text("the error says why")
			}

			switch {
			case o.Terminal && f.Name == "":
				b.WriteString(tty.Wrap("  "+f.Value.Shown(), o.Width) + "\n")
			// The line is never cut, so that names can be copied.
			case o.Terminal:
				b.WriteString("  " + tty.Left(f.Name, wide) + "  " + f.Value.Shown() + "\n")
			default:
				b.WriteString(strings.ToLower(part.title) + "\t" + f.Name + "\t" + f.Value.Plain + "\n")
			}
		}
	}

	return b.String()
}

// isCommonReason reports whether a property has the reason why the table could not be
// checked, which the error of the command gives: without credentials, no part can be
// read.
func isCommonReason(s *infra.Status, f kit.Property) bool {
	return !s.Available && s.Table.Error != "" && f.Name == unknown &&
		strings.HasSuffix(f.Value.Plain, kit.Text(s.Table.Error).Plain)
}

// unknown is the name of the reason why a part could not be read.
const unknown = "unknown"

func statusSections(s *infra.Status) []statusPart {
	return []statusPart{
		{"Connectivity", []kit.Property{
			{Name: "available", Value: kit.YesNo(s.Available)},
			{Name: "latency", Value: latency(s)},
			{Name: "region", Value: kit.Text(s.Region)},
		}},
		{"Stack", stackSection(&s.Stack)},
		{"Table", tableSection(&s.Table)},
		{"Aggregator", append(functionSection(&s.Aggregator), eventSourceProperties(s)...)},
		{"Provisioner", functionSection(&s.Provisioner)},
		{"Versions", versionSection(&s.Versions)},
		{"Alarms", alarmSection(&s.Alarms)},
		{"Access", mapSection(s.IAM)},
		{"Cost", hints(s.CostHints)},
	}
}

func latency(s *infra.Status) kit.Cell {
	if !s.Available {
		return kit.Text("")
	}
	return kit.Text(fmt.Sprintf("%d ms", s.LatencyMillis))
}

// failed adds the reason why a part could not be read.
func failed(properties []kit.Property, why string) []kit.Property {
	if why != "" {
		properties = append(properties, kit.Property{Name: unknown, Value: kit.Text(why)})
	}
	return properties
}

// absent returns the section of a missing part, or the reason why it could not be
// read.
func absent(name, how, why string) []kit.Property {
	if why != "" {
		return failed(nil, why)
	}
	return []kit.Property{{Name: name, Value: kit.Text(how)}}
}

func stackSection(s *infra.StackStatus) []kit.Property {
	if !s.Exists {
		return absent("status", "not found", s.Error)
	}

	properties := []kit.Property{
		{Name: "status", Value: kit.Text(s.Status)}, {Name: "created", Value: kit.Moment(s.Created)},
	}
	if !s.Updated.IsZero() {
		properties = append(properties, kit.Property{Name: "updated", Value: kit.Moment(s.Updated)})
	}
	if s.Reason != "" {
		properties = append(properties, kit.Property{Name: "reason", Value: kit.Text(s.Reason)})
	}

	return failed(append(properties, kit.Property{Name: "protected", Value: kit.YesNo(s.Protected)}), s.Error)
}

func tableSection(t *infra.TableStatus) []kit.Property {
	if !t.Exists {
		return absent("status", "not found", t.Error)
	}

	properties := []kit.Property{
		{Name: "status", Value: kit.Text(t.Status)},
		{Name: "items", Value: approximate(t.Items)},
		{Name: "size", Value: sizeOf(t.Bytes)},
		{Name: "stream", Value: kit.Text(cmp.Or(t.Stream, "off"))},
		{Name: "expiry", Value: kit.Text(strings.TrimSpace(t.TTL + " " + t.TTLAttribute))},
		{Name: "protected", Value: kit.YesNo(t.DeletionProtection)},
	}

	if t.RecoveryDays > 0 {
		days := kit.Text(fmt.Sprintf("%d days", t.RecoveryDays))
		properties = append(properties, kit.Property{Name: "restorable", Value: days})
	}
	for _, x := range t.Indexes {
		properties = append(properties, kit.Property{Name: x.Name, Value: kit.Text(x.Status)})
	}

	return failed(properties, t.Error)
}

// approximate returns the cell of a number that DynamoDB updates only every few
// hours.
func approximate(n int64) kit.Cell {
	c := kit.Number(n)
	c.Display = "about " + c.Display
	return c
}

func sizeOf(n int64) kit.Cell {
	return kit.Cell{Display: "about " + tty.Bytes(n), Plain: fmt.Sprint(n)}
}

func functionSection(f *infra.FunctionStatus) []kit.Property {
	if !f.Exists {
		return absent("function", "not deployed", f.Error)
	}

	properties := []kit.Property{
		{Name: "function", Value: kit.Text(f.Name)},
		{Name: "state", Value: kit.Text(f.State)},
		{Name: "last update", Value: kit.Text(f.LastUpdate)},
		{Name: "runtime", Value: kit.Text(f.Runtime + " " + f.Architecture)},
		{Name: "version", Value: kit.Text(f.Version)},
		{Name: "modified", Value: kit.Text(f.Modified)},
		{Name: "memory", Value: kit.Text(fmt.Sprintf("%d MB", f.MemoryMB))},
		{Name: "timeout", Value: kit.Text(fmt.Sprintf("%d s", f.Timeout))},
	}

	if f.Reason != "" {
		properties = append(properties, kit.Property{Name: "reason", Value: kit.Text(f.Reason)})
	}

	return failed(properties, f.Error)
}

func eventSourceProperties(s *infra.Status) (properties []kit.Property) {
	// A function without an event source counts nothing, so a missing source is
	// shown, too.
	if e := &s.EventSource; e.Exists {
		properties = append(properties, kit.Property{Name: "event source", Value: kit.Text(e.State)},
			kit.Property{Name: "last result", Value: kit.Text(e.LastResult)})
	} else if s.Aggregator.Exists {
		properties = append(properties, kit.Property{Name: "event source", Value: kit.Text("none")})
	}

	properties = failed(properties, s.EventSource.Error)
	if s.DeadLetters.Exists {
		properties = append(properties, kit.Property{Name: "dead letters", Value: kit.Number(s.DeadLetters.Messages)})
	}

	return failed(properties, s.DeadLetters.Error)
}

func versionSection(v *infra.VersionStatus) []kit.Property {
	properties := []kit.Property{
		{Name: "program", Value: kit.Text(v.Program)},
		{Name: "its schema", Value: kit.Text(v.ProgramSchema)},
		{Name: "stack", Value: kit.Text(v.Stack)},
		{Name: "lambda", Value: kit.Text(v.Lambda)},
		{Name: "table", Value: kit.Text(v.Schema)},
		{Name: "least client", Value: kit.Text(v.ClientMin)},
		{Name: "updated by", Value: kit.Text(v.UpdatedBy)},
	}

	if len(v.Pending) > 0 {
		pending := kit.Text(strings.Join(v.Pending, ", "))
		properties = append(properties, kit.Property{Name: "migrations left", Value: pending})
	}
	return failed(properties, v.Error)
}

func alarmSection(a *infra.AlarmsStatus) (properties []kit.Property) {
	for _, x := range a.List {
		state := kit.Text(x.State)
		if x.State == "ALARM" {
			state = kit.Text(x.State + ": " + x.Reason)
		}
		properties = append(properties, kit.Property{Name: x.Name, Value: state})
	}

	return failed(properties, a.Error)
}

func mapSection(m map[string]string) (properties []kit.Property) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		properties = append(properties, kit.Property{Name: name, Value: kit.Text(m[name])})
	}
	return properties
}

func hints(list []string) (properties []kit.Property) {
	for _, hint := range list {
		properties = append(properties, kit.Property{Name: "", Value: kit.Text(hint)})
	}
	return properties
}

type listOptions struct {
	*kit.Stack
	json bool
}

func newList(c *kit.Console) *cobra.Command {
	o := &listOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the stacks in an AWS account",
		Long:    "List the stacks of zae-limiter in an AWS account and region, by name.",
		Example: "  zae-limiter list\n  zae-limiter list --region eu-west-1 --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), o) },
	}
	o.AddPlace(cmd)
	kit.AddJSON[foundJSON](cmd, &o.json, kit.AnArray, foundColumns)
	return cmd
}

var foundColumns = []kit.Column{
	{Title: "name"},
	{Title: "status", Whole: true},
	{Title: "version"},
	{Title: "created", Whole: true},
	{Title: "region", Spare: true},
}

// foundJSON is a stack as JSON.
type foundJSON struct {
	Name          string     `json:"name" doc:"name without the prefix of older tools"`
	Stack         string     `json:"stack_name" doc:"name in CloudFormation"`
	Region        string     `json:"region" doc:"AWS region"`
	Status        string     `json:"stack_status" doc:"status in CloudFormation"`
	Version       *string    `json:"version" doc:"version that deployed the stack"`
	LambdaVersion *string    `json:"lambda_version" doc:"version of the functions"`
	SchemaVersion *string    `json:"schema_version" doc:"schema version of the table"`
	Created       *time.Time `json:"creation_time" doc:"time of creation"`
	Updated       *time.Time `json:"last_updated_time" doc:"time of the last update"`
}

func runList(ctx context.Context, o *listOptions) error {
	opts, err := o.Options()
	if err != nil {
		return err
	}

	found, err := infra.List(ctx, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	l := kit.Listing[infra.StackSummary]{
		Columns: foundColumns,
		Row: func(f infra.StackSummary) []kit.Cell {
			return []kit.Cell{
				kit.Text(f.Name), o.StackState(f), kit.Text(f.Version), kit.Moment(f.Created), kit.Text(f.Region),
			}
		},
		Object: func(f infra.StackSummary) any {
			return foundJSON{
				f.Name, f.Stack, f.Region, f.Status, jsonview.OrNull(f.Version), jsonview.OrNull(f.LambdaVersion),
				jsonview.OrNull(f.SchemaVersion),
				jsonview.TimeOrNull(f.Created), jsonview.TimeOrNull(f.Updated),
			}
		},
		Nothing: "There are no stacks; " + o.Place().Command("deploy") + " creates one.",
	}

	return l.Print(o.Console, o.json, kit.Each(found))
}
