package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
)

type localStatusOptions struct {
	connection
	json bool
}

func newStatus(c *kit.Console) *cobra.Command {
	o := &localStatusOptions{connection: connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the engine of this machine",
		Long: `Show an engine of this machine: where it is, whether it is healthy, and which
aggregators count usage. It is no error if no engine is running.

` + help,
		Example: "  zae-limiter local status\n  zae-limiter local status --port 8000 --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLocalStatus(cmd.Context(), o) },
	}

	o.addEngine(cmd)
	kit.AddJSON[localJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// localJSON is the output of local status as JSON.
type localJSON struct {
	Running     bool             `json:"running" doc:"whether an engine is running"`
	Engine      *string          `json:"engine" doc:"localstack or dynamodb"`
	Status      string           `json:"status" doc:"running, stopped, or a status of Docker"`
	Health      string           `json:"health" doc:"healthy, starting, unhealthy or unknown"`
	Port        int              `json:"port" doc:"port that it listens on; 0 without an engine"`
	Endpoint    *string          `json:"endpoint" doc:"its URL"`
	Image       *string          `json:"image" doc:"image of its container"`
	Container   *string          `json:"container" doc:"name of its container"`
	Program     *string          `json:"program" doc:"program, if there is no container"`
	PID         int              `json:"pid" doc:"its process; 0 if it is a container"`
	Services    *string          `json:"services" doc:"services that it offers"`
	Table       *string          `json:"table" doc:"table that was prepared last"`
	StartedAt   *time.Time       `json:"started_at" doc:"when it was started"`
	Data        *string          `json:"data" doc:"folder or volume of its data"`
	Log         *string          `json:"log" doc:"file with its log, if there is no container"`
	Aggregators []aggregatorJSON `json:"aggregators" doc:"aggregators beside it: table, pid and running"`
}

type aggregatorJSON struct {
	Table   string `json:"table"`
	PID     int    `json:"pid"`
	Running bool   `json:"running"`
}

func runLocalStatus(ctx context.Context, o *localStatusOptions) error {
	e, err := o.find(ctx)
	if errors.Is(err, local.ErrNotRunning) {
		shape := localJSON{Status: "not running", Health: local.Unknown, Aggregators: []aggregatorJSON{}}
		o.Say("zae-limiter local up starts an engine")
		state := []kit.Property{{Name: "Engine", Value: kit.Text("not running")}}
		return kit.PrintProperties(o.Console, o.json, state, shape)
	}
	if err != nil {
		return err
	}

	state, err := e.Inspect(ctx)
	if err != nil {
		return err
	}

	shape := newLocalJSON(e, state)
	if err := kit.PrintProperties(o.Console, o.json, shape.properties(e), shape); err != nil {
		return err
	}

	if state.Running && state.Health == local.Healthy {
		o.suggestShells()
	}
	return nil
}

func (o *localStatusOptions) suggestShells() {
	o.Say("To use it, run one of:")
	o.Say("  eval \"$(%s)\"", o.suggestion("env"))
	o.Say("  %s > .env", o.suggestion("env --format direnv"))
	o.Say("  %s | Invoke-Expression", o.suggestion("env --format powershell"))
}

func newLocalJSON(e *local.Engine, state local.State) localJSON {
	shape := localJSON{
		Running: state.Running, Engine: jsonview.OrNull(string(e.Kind)), Status: state.Status, Health: state.Health,
		Port: e.Port, Endpoint: jsonview.OrNull(e.Endpoint()), Image: jsonview.OrNull(e.Image),
		Container: jsonview.OrNull(e.Container), Program: jsonview.OrNull(e.Program),
		Services: jsonview.OrNull(e.Kind.Services()), Table: jsonview.OrNull(e.Table),
		StartedAt: jsonview.TimeOrNull(e.Started), Data: jsonview.OrNull(e.Data), Log: jsonview.OrNull(e.Log),
		Aggregators: []aggregatorJSON{},
	}

	if e.Process != nil {
		shape.PID = e.Process.PID
	}

	for _, table := range slices.Sorted(maps.Keys(e.Aggregators)) {
		p := e.Aggregators[table]
		shape.Aggregators = append(shape.Aggregators, aggregatorJSON{table, p.PID, p.Alive()})
	}
	return shape
}

func (s *localJSON) properties(e *local.Engine) []kit.Property {
	properties := []kit.Property{
		{Name: e.Kind.Title(), Value: kit.Text(s.Status)},
		{Name: "Endpoint", Value: kit.Text(e.Endpoint())},
		{Name: "Health", Value: kit.Text(s.Health)},
	}

	for _, p := range []struct{ name, value string }{
		{"Image", e.Image},
		{"Container", e.Container},
		{"Program", e.Program},
		{"Services", e.Kind.Services()},
		{"Table", e.Table},
		{"Data", e.Data},
		{"Log", e.Log},
	} {
		if p.value != "" {
			properties = append(properties, kit.Property{Name: p.name, Value: kit.Text(p.value)})
		}
	}

	if s.PID != 0 {
		properties = append(properties, kit.Property{Name: "Process", Value: kit.Text(strconv.Itoa(s.PID))})
	}

	for _, a := range s.Aggregators {
		status := "stopped"
		if a.Running {
			status = "running"
		}
		properties = append(properties, kit.Property{
			Name: "Aggregator", Value: kit.Text(fmt.Sprintf("%s, table %s, process %d", status, a.Table, a.PID)),
		})
	}

	return properties
}
