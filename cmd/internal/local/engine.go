package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Engine is the record of an engine: what was started, and how to find it.
type Engine struct {
	Kind    Kind      `json:"engine"`
	Port    int       `json:"port"`
	Started time.Time `json:"started_at"`
	Table   string    `json:"table,omitempty"` // prepared last
	Data    string    `json:"data,omitempty"`  // folder or volume

	// The container.
	Container   string `json:"container,omitempty"` // name
	ContainerID string `json:"container_id,omitempty"`
	Image       string `json:"image,omitempty"`
	DockerHost  string `json:"docker_host,omitempty"`
	Context     string `json:"docker_context,omitempty"` // without a DockerHost
	// Foreign reports that another program started the container.
	Foreign bool `json:"foreign,omitempty"`

	// The Java process, in place of a container.
	Process *Process `json:"process,omitempty"`
	Program string   `json:"program,omitempty"`
	Log     string   `json:"log,omitempty"`

	// Aggregators holds the processes that count usage, by their table.
	Aggregators map[string]Process `json:"aggregators,omitempty"`
}

// docker returns the docker program at the daemon of the container.
func (e *Engine) docker() docker { return docker{e.DockerHost, e.Context} }

// Endpoint returns the URL of the engine.
func (e *Engine) Endpoint() string { return Endpoint(e.Port) }

// Health values of a State. Docker reports others, such as "unhealthy".
const (
	Healthy  = "healthy"
	Starting = "starting"
	Unknown  = "unknown"
)

// State is what an engine does at the time of a call.
type State struct {
	Running bool
	Status  string // running, stopped, or a status of Docker
	Health  string
}

// Inspect returns the state of the engine.
func (e *Engine) Inspect(ctx context.Context) (State, error) {
	if e.Container != "" {
		return e.inspectContainer(ctx)
	}

	if !e.Process.Alive() {
		return State{Status: "stopped", Health: Unknown}, nil
	}

	s := State{Running: true, Status: "running", Health: Starting}
	if answers(ctx, e.Port) {
		s.Health = Healthy
	}
	return s, nil
}

func (e *Engine) inspectContainer(ctx context.Context) (State, error) {
	c, err := e.docker().inspect(ctx, e.Container)
	if err != nil {
		return State{Health: Unknown}, err
	}

	// Another container may have taken the name since.
	if c == nil || !c.is(e.ContainerID) {
		return State{Status: "stopped", Health: Unknown}, nil
	}

	s := State{
		Running: c.State.Running || c.State.Status == "running", Status: c.State.Status,
		Health: cmp.Or(c.health(), Unknown),
	}

	// Without a health check, an answer is the only sign of health.
	if s.Running && c.health() == "" && answers(ctx, e.Port) {
		s.Health = Healthy
	}
	return s, nil
}

// Answers reports whether the engine answers at its port, without a call to Docker.
func (e *Engine) Answers(ctx context.Context) bool {
	return (e.Process == nil || e.Process.Alive()) && answers(ctx, e.Port)
}

// Down stops an engine and its aggregators and removes its record. It keeps the
// data unless purge is set. An engine that has stopped meanwhile is a success.
func (f *Folder) Down(ctx context.Context, e *Engine, purge bool) error {
	failed := []error{e.stopAggregators(ctx)}
	if e.Process != nil {
		failed = append(failed, e.Process.Stop(ctx))
	} else {
		failed = append(failed, e.removeContainer(ctx, purge))
	}

	// The record stays until everything has stopped, so that another attempt
	// finds what is left.
	if err := errors.Join(failed...); err != nil {
		return err
	}

	return f.forget(e.Port, purge)
}

func (e *Engine) removeContainer(ctx context.Context, purge bool) error {
	// Another program started the container and may still need it.
	if e.Foreign {
		return nil
	}

	d := e.docker()
	c, err := d.inspect(ctx, e.Container)
	if err != nil {
		return err
	}

	if c != nil && c.is(e.ContainerID) {
		if err := d.remove(ctx, e.Container); err != nil {
			return err
		}
	}

	if purge && e.Data != "" {
		return d.removeVolume(ctx, e.Data)
	}
	return nil
}

// Purge removes the data that a stopped engine left at a port. It reports whether
// there were any.
func (f *Folder) Purge(ctx context.Context, port int) (bool, error) {
	if _, err := os.Stat(f.at(port)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	e, err := f.read(port, stoppedName)
	if err == nil && e.Container != "" && e.Data != "" {
		err = e.docker().removeVolume(ctx, e.Data)
	}

	// A port without a record of a stopped engine has only files in its folder.
	if err != nil && !errors.Is(err, ErrNotRunning) {
		return false, err
	}

	return true, os.RemoveAll(f.at(port))
}

// Leftover returns the ports at which stopped engines left data.
func (f *Folder) Leftover() ([]int, error) { return f.ports() }

// LogOf returns the path of the log of the aggregator of a table.
func (f *Folder) LogOf(e *Engine, table string) string {
	return f.at(e.Port, "aggregate-"+filepath.Base(table)+".log")
}

// Recorded returns the record of the engine at a port, or the only one if port is
// 0, without a call to Docker. It returns an error that wraps ErrNotRunning if
// there is none.
func (f *Folder) Recorded(port int) (*Engine, error) {
	if port != 0 {
		return f.Load(port)
	}

	all, err := f.All()
	if err != nil {
		return nil, err
	}

	if len(all) == 0 {
		return nil, ErrNotRunning
	}

	// Without Docker it is unknown whether a container runs, so only processes
	// that have ended are left out.
	alive := slices.DeleteFunc(slices.Clone(all), func(e *Engine) bool {
		return e.Process != nil && !e.Process.Alive()
	})
	if len(alive) > 0 {
		all = alive
	}

	return only(all)
}
