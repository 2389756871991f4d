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

	"github.com/zeroae/zae-limiter-go/infra"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type statusOptions struct {
	*stackConnection
	json bool
}

func newStatus(c *console) *cobra.Command {
	o := &statusOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a stack is",
		Long: `Shows how a stack and everything in it is: whether its table answers, its
indexes, stream and size, the functions and what brings them changes, dead
letters, alarms, versions, policies, and what it costs. What could not be found
out says why. It ends with 1 if limits do not work or the stack has failed.

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

// verdict says the whole in a sentence. It is an error if limits do not work.
func (o *statusOptions) verdict(s *infra.Status) error {
	why := strings.Join(s.Problems, "; ")
	switch s.Verdict {
	case infra.Ready:
		o.done("%s is ready", s.Name)
	case infra.Changing:
		o.say("%s is changing: %s", s.Name, why)
	case infra.Degraded, infra.Uncertain:
		o.warn("%s limits, but: %s", s.Name, why)
	default:
		return errors.New(s.Name + " is " + string(s.Verdict) + ": " + why)
	}
	return nil
}

// statusPart is a heading and what is under it.
type statusPart struct {
	title string
	facts []fact
}

func (o *statusOptions) sections(s *infra.Status) string {
	var b strings.Builder
	for i, part := range statusSections(s) {
		if len(part.facts) == 0 {
			continue
		}
		if o.terminal && i > 0 {
			b.WriteString("\n")
		}
		if o.terminal {
			b.WriteString(o.style.Bold(part.title) + "\n")
		}
		wide := 16
		for _, f := range part.facts {
			wide = max(wide, tty.Width(f.name))
		}
		for _, f := range part.facts {
			switch {
			case o.terminal && f.name == "":
				b.WriteString(tty.Wrap("  "+f.value.shown(), o.width) + "\n")
			case o.terminal: // in full, since names of the account are for copying
				b.WriteString("  " + tty.Left(f.name, wide) + "  " + f.value.shown() + "\n")
			default:
				b.WriteString(strings.ToLower(part.title) + "\t" + f.name + "\t" + f.value.program + "\n")
			}
		}
	}
	return b.String()
}

func statusSections(s *infra.Status) []statusPart {
	return []statusPart{
		{"Connectivity", []fact{
			{"available", yesNo(s.Available)}, {"latency", latency(s)}, {"region", text(s.Region)},
		}},
		{"Stack", stackSection(&s.Stack)},
		{"Table", tableSection(&s.Table)},
		{"Aggregator", append(functionSection(&s.Aggregator), eventSourceFacts(s)...)},
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

// failed adds why something could not be found out.
func failed(facts []fact, why string) []fact {
	if why != "" {
		facts = append(facts, fact{"unknown", text(why)})
	}
	return facts
}

// absent is what to say of something that is not there, unless nobody knows.
func absent(name, how, why string) []fact {
	if why != "" {
		return failed(nil, why)
	}
	return []fact{{name, text(how)}}
}

func stackSection(s *infra.StackStatus) []fact {
	if !s.Exists {
		return absent("status", "not found", s.Error)
	}
	facts := []fact{{"status", text(s.Status)}, {"created", moment(s.Created)}}
	if !s.Updated.IsZero() {
		facts = append(facts, fact{"updated", moment(s.Updated)})
	}
	if s.Reason != "" {
		facts = append(facts, fact{"reason", text(s.Reason)})
	}
	return failed(append(facts, fact{"protected", yesNo(s.Protected)}), s.Error)
}

func tableSection(t *infra.TableStatus) []fact {
	if !t.Exists {
		return absent("status", "not found", t.Error)
	}
	facts := []fact{
		{"status", text(t.Status)},
		{"items", about(t.Items)},
		{"size", sizeOf(t.Bytes)},
		{"stream", text(cmp.Or(t.Stream, "off"))},
		{"expiry", text(strings.TrimSpace(t.TTL + " " + t.TTLAttribute))},
		{"protected", yesNo(t.DeletionProtection)},
	}
	if t.RecoveryDays > 0 {
		facts = append(facts, fact{"restorable", text(fmt.Sprintf("%d days", t.RecoveryDays))})
	}
	for _, x := range t.Indexes {
		facts = append(facts, fact{x.Name, text(x.Status)})
	}
	return failed(facts, t.Error)
}

func about(n int64) cell {
	c := number(n)
	c.people = "about " + c.people
	return c
}

func sizeOf(n int64) cell { return cell{people: "about " + tty.Bytes(n), program: fmt.Sprint(n)} }

func functionSection(f *infra.FunctionStatus) []fact {
	if !f.Exists {
		return absent("function", "not deployed", f.Error)
	}
	facts := []fact{
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
		facts = append(facts, fact{"reason", text(f.Reason)})
	}
	return failed(facts, f.Error)
}

func eventSourceFacts(s *infra.Status) (facts []fact) {
	if e := &s.EventSource; e.Exists {
		facts = append(facts, fact{"event source", text(e.State)}, fact{"last result", text(e.LastResult)})
	} else if s.Aggregator.Exists {
		facts = append(facts, fact{"event source", text("none")})
	}
	facts = failed(facts, s.EventSource.Error)
	if s.DeadLetters.Exists {
		facts = append(facts, fact{"dead letters", number(s.DeadLetters.Messages)})
	}
	return failed(facts, s.DeadLetters.Error)
}

func versionSection(v *infra.VersionStatus) []fact {
	facts := []fact{
		{"program", text(v.Program)},
		{"its schema", text(v.ProgramSchema)},
		{"stack", text(v.Stack)},
		{"lambda", text(v.Lambda)},
		{"table", text(v.Schema)},
		{"least client", text(v.ClientMin)},
		{"updated by", text(v.UpdatedBy)},
	}
	if len(v.Pending) > 0 {
		facts = append(facts, fact{"migrations left", text(strings.Join(v.Pending, ", "))})
	}
	return failed(facts, v.Error)
}

func alarmSection(a *infra.AlarmsStatus) (facts []fact) {
	for _, x := range a.List {
		state := text(x.State)
		if x.State == "ALARM" {
			state = text(x.State + ": " + x.Reason)
		}
		facts = append(facts, fact{x.Name, state})
	}
	return failed(facts, a.Error)
}

func mapSection(m map[string]string) (facts []fact) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		facts = append(facts, fact{name, text(m[name])})
	}
	return facts
}

func hints(list []string) (facts []fact) {
	for _, hint := range list {
		facts = append(facts, fact{"", text(hint)})
	}
	return facts
}
