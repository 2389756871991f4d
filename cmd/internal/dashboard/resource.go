package dashboard

import (
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// Resources lists the known resources, as JSON.
type Resources struct {
	Resources []string `json:"resources"`
}

// ResourceTable lists the known resources with their defaults, as JSON.
type ResourceTable struct {
	Resources []ResourceLine `json:"resources"`
	// More counts the resources that are left out.
	More int `json:"more"`
}

// ResourceLine is a resource with its defaults, as JSON.
type ResourceLine struct {
	Name string `json:"name"`
	// Limits is empty if the resource has no defaults.
	Limits []jsonview.Limit `json:"limits"`
	// Disabled holds the levels that are off for all entities.
	Disabled []jsonview.Switch `json:"disabled"`
}

// mostLines bounds a table of resources.
const mostLines = 200

// resources returns the resources with limits, and those seen in buckets so far.
func resources(c *call) (any, error) {
	shared, err := c.lim.ResourcesWithDefaults(c.ctx)
	if err != nil {
		return nil, err
	}
	own, err := c.lim.ResourcesWithLimits(c.ctx)
	if err != nil {
		return nil, err
	}

	names := firstNames(maxResources, shared, own, c.seen.all())
	if c.param("with") != "limits" {
		return Resources{names}, nil
	}

	// Each resource with defaults costs a read.
	more := max(0, len(names)-mostLines)
	names = names[:len(names)-more]
	off := c.off(c.ctx)

	lines := make([]ResourceLine, len(names))
	for i, name := range names {
		lines[i] = ResourceLine{Name: name, Limits: []jsonview.Limit{}, Disabled: off.of("", nil, name)}
		if !slices.Contains(shared, name) {
			continue
		}
		defaults, err := c.configs.get(c.ctx, limiter.Scope{Resource: name})
		if err != nil {
			return nil, err
		}
		lines[i].Limits = jsonview.NewLimits(defaults.Limits)
	}

	return ResourceTable{lines, more}, nil
}

// ResourceView is the use of one resource by all entities, as JSON.
type ResourceView struct {
	Resource string        `json:"resource"`
	Limits   []ResourceSum `json:"limits"`
	Top      []Row         `json:"top"`
	// Defaults is null if there are none.
	Defaults []jsonview.Limit `json:"defaults"`
	// Entities counts the entities that have a bucket.
	Entities int  `json:"entities"`
	Scanned  int  `json:"scanned"`
	Done     bool `json:"done"`
	// Disabled holds the levels that are off for all entities.
	Disabled []jsonview.Switch `json:"disabled"`
}

// ResourceSum is one limit of a resource over all entities, as JSON.
type ResourceSum struct {
	Name string `json:"name"`
	// Available counts debt as negative.
	Available      int64   `json:"available"`
	Capacity       int64   `json:"capacity"`
	MissingPercent float64 `json:"missing_percent"`
}

func resource(c *call) (any, error) {
	name := c.param("name")
	if err := checkResource(name); err != nil {
		return nil, err
	}

	defaults, err := c.configs.get(c.ctx, limiter.Scope{Resource: name})
	if err != nil {
		return nil, err
	}

	t, done, err := c.scanned(c.ctx, name)
	if err != nil {
		return nil, err
	}

	v := ResourceView{
		Resource: name, Limits: t.totals(), Entities: t.scanned, Scanned: t.scanned, Done: done,
		Disabled: c.off(c.ctx).of("", nil, name),
	}

	if len(defaults.Limits) > 0 {
		v.Defaults = jsonview.NewLimits(defaults.Limits)
	}

	if v.Top, err = c.tightRows(t); err != nil {
		return nil, err
	}
	return v, nil
}

// checkResource returns an error if a name cannot be a resource.
func checkResource(name string) error {
	return limiter.Request{Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0)}.Validate()
}

// totals returns the sums by limit.
func (t *tally) totals() []ResourceSum {
	sums := []ResourceSum{}
	for _, name := range slices.Sorted(maps.Keys(t.sums)) {
		s := t.sums[name]
		// Sums may be at the bounds of an int64, where their difference would
		// overflow.
		used := (float64(s.capacity) - float64(s.available)) / float64(s.capacity) * 100
		sums = append(sums, ResourceSum{name, s.available, s.capacity, max(0, math.Floor(used*100)/100)})
	}
	return sums
}
