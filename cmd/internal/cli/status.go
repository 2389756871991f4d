package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type statusOptions struct {
	*stackConnection
	json bool
}

func newStatus(c *console) *cobra.Command {
	o := &statusOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a stack",
		Long: `Show the status of a stack: whether its table answers, the table's indexes,
stream and size, the functions and their event source, dead letters, alarms,
versions, policies, and hints about cost. A part that cannot be read shows the
reason. The exit code is 1 if limits do not work or the stack has failed.

` + stackHelp,
		Example: "  zae-limiter status --name my-app\n  zae-limiter status -n my-app --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), o) },
	}

	o.addTo(cmd)
	addJSON[infra.Status](cmd, &o.json, anObject, nil)
	return cmd
}

func runStatus(ctx context.Context, o *statusOptions) error {
	name, opts, err := o.target()
	if err != nil {
		return err
	}

	s, err := infra.Inspect(ctx, name, &opts)
	if err != nil {
		return stackError(err)
	}

	if o.json {
		err = o.printJSON(s)
	} else {
		_, err = io.WriteString(o.out, o.sections(&s))
	}

	return cmp.Or(err, o.verdict(&s))
}

// verdict reports the status in a sentence. It returns an error if limits do not
// work.
func (o *statusOptions) verdict(s *infra.Status) error {
	why := strings.Join(s.Problems, "; ")
	switch s.Verdict {
	case infra.Ready:
		o.done("%s is ready", s.Name)
	case infra.Changing:
		o.say("%s is changing: %s", s.Name, why)
	case infra.Degraded, infra.Uncertain:
		o.warn("%s works, but: %s", s.Name, why)
	default:
		return errors.New(s.Name + " is " + string(s.Verdict) + ": " + why)
	}
	return nil
}

// statusPart is a section of the status.
type statusPart struct {
	title      string
	properties []property
}

func (o *statusOptions) sections(s *infra.Status) string {
	var b strings.Builder
	for i, part := range statusSections(s) {
		if len(part.properties) == 0 {
			continue
		}
		if o.terminal && i > 0 {
			b.WriteString("\n")
		}
		if o.terminal {
			b.WriteString(o.style.Bold(part.title) + "\n")
		}

		wide := 16
		for _, f := range part.properties {
			wide = max(wide, tty.Width(f.name))
		}

		for _, f := range part.properties {
			switch {
			case o.terminal && f.name == "":
				b.WriteString(tty.Wrap("  "+f.value.shown(), o.width) + "\n")
			// The line is never cut, so that names can be copied.
			case o.terminal:
				b.WriteString("  " + tty.Left(f.name, wide) + "  " + f.value.shown() + "\n")
			default:
				b.WriteString(strings.ToLower(part.title) + "\t" + f.name + "\t" + f.value.plain + "\n")
			}
		}
	}

	return b.String()
}

func statusSections(s *infra.Status) []statusPart {
	return []statusPart{
		{"Connectivity", []property{
			{"available", yesNo(s.Available)}, {"latency", latency(s)}, {"region", text(s.Region)},
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

func latency(s *infra.Status) cell {
	if !s.Available {
		return text("")
	}
	return text(fmt.Sprintf("%d ms", s.LatencyMillis))
}

// failed adds the reason why a part could not be read.
func failed(properties []property, why string) []property {
	if why != "" {
		properties = append(properties, property{"unknown", text(why)})
	}
	return properties
}

// absent returns the section of a missing part, or the reason why it could not be
// read.
func absent(name, how, why string) []property {
	if why != "" {
		return failed(nil, why)
	}
	return []property{{name, text(how)}}
}

func stackSection(s *infra.StackStatus) []property {
	if !s.Exists {
		return absent("status", "not found", s.Error)
	}

	properties := []property{{"status", text(s.Status)}, {"created", moment(s.Created)}}
	if !s.Updated.IsZero() {
		properties = append(properties, property{"updated", moment(s.Updated)})
	}
	if s.Reason != "" {
		properties = append(properties, property{"reason", text(s.Reason)})
	}

	return failed(append(properties, property{"protected", yesNo(s.Protected)}), s.Error)
}

func tableSection(t *infra.TableStatus) []property {
	if !t.Exists {
		return absent("status", "not found", t.Error)
	}

	properties := []property{
		{"status", text(t.Status)},
		{"items", approximate(t.Items)},
		{"size", sizeOf(t.Bytes)},
		{"stream", text(cmp.Or(t.Stream, "off"))},
		{"expiry", text(strings.TrimSpace(t.TTL + " " + t.TTLAttribute))},
		{"protected", yesNo(t.DeletionProtection)},
	}

	if t.RecoveryDays > 0 {
		properties = append(properties, property{"restorable", text(fmt.Sprintf("%d days", t.RecoveryDays))})
	}
	for _, x := range t.Indexes {
		properties = append(properties, property{x.Name, text(x.Status)})
	}

	return failed(properties, t.Error)
}

// approximate returns the cell of a number that DynamoDB updates only every few
// hours.
func approximate(n int64) cell {
	c := number(n)
	c.display = "about " + c.display
	return c
}

func sizeOf(n int64) cell { return cell{display: "about " + tty.Bytes(n), plain: fmt.Sprint(n)} }

func functionSection(f *infra.FunctionStatus) []property {
	if !f.Exists {
		return absent("function", "not deployed", f.Error)
	}

	properties := []property{
		{"function", text(f.Name)},
		{"state", text(f.State)},
		{"last update", text(f.LastUpdate)},
		{"runtime", text(f.Runtime + " " + f.Architecture)},
		{"version", text(f.Version)},
		{"modified", text(f.Modified)},
		{"memory", text(fmt.Sprintf("%d MB", f.MemoryMB))},
		{"timeout", text(fmt.Sprintf("%d s", f.Timeout))},
	}

	if f.Reason != "" {
		properties = append(properties, property{"reason", text(f.Reason)})
	}

	return failed(properties, f.Error)
}

func eventSourceProperties(s *infra.Status) (properties []property) {
	// A function without an event source counts nothing, so a missing source is
	// shown, too.
	if e := &s.EventSource; e.Exists {
		properties = append(properties, property{"event source", text(e.State)},
			property{"last result", text(e.LastResult)})
	} else if s.Aggregator.Exists {
		properties = append(properties, property{"event source", text("none")})
	}

	properties = failed(properties, s.EventSource.Error)
	if s.DeadLetters.Exists {
		properties = append(properties, property{"dead letters", number(s.DeadLetters.Messages)})
	}

	return failed(properties, s.DeadLetters.Error)
}

func versionSection(v *infra.VersionStatus) []property {
	properties := []property{
		{"program", text(v.Program)},
		{"its schema", text(v.ProgramSchema)},
		{"stack", text(v.Stack)},
		{"lambda", text(v.Lambda)},
		{"table", text(v.Schema)},
		{"least client", text(v.ClientMin)},
		{"updated by", text(v.UpdatedBy)},
	}

	if len(v.Pending) > 0 {
		properties = append(properties, property{"migrations left", text(strings.Join(v.Pending, ", "))})
	}
	return failed(properties, v.Error)
}

func alarmSection(a *infra.AlarmsStatus) (properties []property) {
	for _, x := range a.List {
		state := text(x.State)
		if x.State == "ALARM" {
			state = text(x.State + ": " + x.Reason)
		}
		properties = append(properties, property{x.Name, state})
	}

	return failed(properties, a.Error)
}

func mapSection(m map[string]string) (properties []property) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		properties = append(properties, property{name, text(m[name])})
	}
	return properties
}

func hints(list []string) (properties []property) {
	for _, hint := range list {
		properties = append(properties, property{"", text(hint)})
	}
	return properties
}
