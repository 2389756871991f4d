package data

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

type topOptions struct {
	*kit.Connection
	of          limiter.Scope
	interval    time.Duration
	most, limit int
	view        topView
	once        bool // print once, even on a terminal
	json        bool
}

func newTop(c *kit.Console) *cobra.Command {
	o := topOptions{Connection: &kit.Connection{Console: c}, interval: 2 * time.Second, most: 1000}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the buckets of a store",
		Long: `Show what is left in the buckets of a store, a line for each limit: first limits
in debt, then those with the smallest part of their capacity left, or as --sort
says. On a terminal, refresh every --interval until q or Ctrl-C, and ? shows the
keys that filter, sort and scroll; elsewhere, or with -o, print once. The
command takes no tokens. Buckets without recent use are full, and may be
missing. For shadow limits it shows the calls that they would have refused in
this hour, from the usage. A bucket whose entity or resource is disabled is
marked so, but not for a disabled parent.

Each refresh reads up to --most buckets, in the order of resources and entities,
and reports if there are more. On DynamoDB it reads the keys of the namespace,
unless --resource or --entity-id narrows them, and up to --most buckets, so
choose --interval with care.

` + kit.StoreHelp,
		Example: `  zae-limiter top
  zae-limiter top -r gpt-4 --interval 500ms
  zae-limiter top --filter key- --sort entity
  zae-limiter top -o tsv | head -3`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// With -o the buckets are printed once, even on a terminal.
			o.once = cmd.Flags().Changed(kit.OutputFlag)
			return runTop(cmd.Context(), o)
		},
	}

	o.AddNamespace(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.of.Entity, "entity-id", "e", "", "only buckets of this `entity`")
	flags.StringVarP(&o.of.Resource, "resource", "r", "", "only buckets of this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("entity-id", o.CompleteEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)

	flags.StringVar(&o.view.filter, "filter", "",
		"only limits whose entity, resource or name contains this `text`, among the buckets that are read")
	kit.AddFlag(cmd, &o.view.order, "sort", "order", "left", "left, full, entity, resource or limit", parseOrder)
	_ = cmd.RegisterFlagCompletionFunc("sort", kit.CompleteWords("left", "full", "entity", "resource", "limit"))

	kit.AddFlag(cmd, &o.interval, "interval", "duration", "2s", "time between refreshes", parseInterval)
	kit.AddFlag(cmd, &o.most, "most", "number", "1000", "maximum number of buckets to read", parseMost)
	addRowLimit(cmd, &o.limit, "l", 100)

	kit.AddJSON[topJSON](cmd, &o.json, kit.AnArray, topColumns)
	return cmd
}

func parseInterval(text string) (time.Duration, error) {
	const least = 100 * time.Millisecond
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		return 0, errors.New("must be a duration of at least 100ms, such as 2s")
	}
	return d, nil
}

func parseMost(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, errors.New("must be a whole number from 1 to 1000000")
	}
	return n, nil
}

func runTop(ctx context.Context, o topOptions) error {
	if err := (limiter.UsageQuery{Entity: o.of.Entity, Resource: o.of.Resource}).Validate(); err != nil {
		return kit.Usagef("%v", err)
	}

	return o.WithStore(ctx, kit.Read, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		// The wrapper of stdout hides the terminal.
		screen := tty.OpenScreen(o.File)
		if screen == nil || o.json || o.once {
			return o.printOnce(ctx, repo)
		}

		keys, restore := tty.Keys(o.In)
		defer restore()
		return o.watch(ctx, repo, screen, keys)
	})
}

// printOnce prints the buckets once.
func (o topOptions) printOnce(ctx context.Context, repo limiter.Repository) error {
	seen, err := o.readBuckets(ctx, repo)
	if err != nil {
		return err
	}

	more := false
	rows := jsonview.First(kit.Each(o.view.choose(seen.gauges)), o.limit, func(gauge) { more = true })
	if err := topListing().Print(o.Console, o.json, rows); err != nil {
		return err
	}

	if more {
		o.Say("There are more; --limit 0 shows all.")
	}
	if seen.cut {
		o.Warn("%s", o.cutText())
	}
	return nil
}

func (o topOptions) cutText() string {
	return "only the first " + tty.Number(int64(o.most)) + " buckets were read; choose others with " +
		"--resource, --entity-id or --most"
}

// watch redraws the buckets until ctx ends or the user quits. It returns an error
// of the first read and shows later ones, which may be temporary.
func (o *topOptions) watch(
	ctx context.Context, repo limiter.Repository, screen *tty.Screen, keys <-chan byte,
) (err error) {
	defer func() { err = errors.Join(err, screen.Close()) }()

	seen, trouble := o.readBuckets(ctx, repo)
	if trouble != nil {
		return trouble
	}

	// Draw leaves the last line of the terminal to the cursor.
	draw := func() error {
		width, height := screen.Size()
		return screen.Draw(o.frame(seen, trouble, width, height-1))
	}

	for {
		if err := draw(); err != nil {
			return err
		}
		if again, err := o.wait(ctx, keys, draw); !again || err != nil {
			return err
		}

		next, err := o.readBuckets(ctx, repo)
		// An interrupt during a read is how the user ends the command, and no
		// error.
		if ctx.Err() != nil {
			return nil
		}

		// After an error the last buckets stay on the screen, below the
		// message.
		if trouble = err; err == nil {
			seen = next
		}
	}
}

// wait waits for the interval, and draws the buckets again after each key. It
// returns false if ctx ends or the user quits.
func (o *topOptions) wait(ctx context.Context, keys <-chan byte, draw func() error) (again bool, err error) {
	timer := time.NewTimer(o.interval)
	defer timer.Stop()

	for {
		var escape <-chan time.Time
		if o.view.mayBeEscape() {
			escape = time.After(escapeDelay)
		}

		select {
		case <-escape:
			o.view.escape()
			if err := draw(); err != nil {
				return false, err
			}
		case <-timer.C:
			return true, nil
		case <-ctx.Done():
			return false, nil
		case key, ok := <-keys:
			if !ok {
				// The terminal is gone. A closed channel would be ready in
				// every round, so only a signal can end the loop from here on.
				keys = nil
				continue
			}

			if o.view.press(key) {
				return false, nil
			}

			if err := draw(); err != nil {
				return false, err
			}
		}
	}
}

// gauge is one limit of one bucket.
type gauge struct {
	entity, resource string
	limit            limiter.Limit
	tokens           int64 // thousandths
	status           limiter.Status
	// wouldRefuse counts the calls that a shadow limit would have refused in this
	// hour.
	wouldRefuse int64
	// off is a disabled level that refuses the calls, or nil.
	off *limiter.Switch
}

// snapshot holds the buckets as they were read at one time.
type snapshot struct {
	at      time.Time
	buckets int
	gauges  []gauge // by resource and entity
	cut     bool    // there are more buckets
}

// readBuckets reads the buckets of the scope.
func (o topOptions) readBuckets(ctx context.Context, repo limiter.Repository) (snapshot, error) {
	v := snapshot{at: o.Now()}

	off, err := kit.Collect(repo.Switches(ctx))
	if err != nil {
		return snapshot{}, err
	}

	for b, err := range repo.Buckets(ctx, v.at, o.of) {
		if err != nil {
			return snapshot{}, err
		}

		// The bucket after the last one of --most is not shown. It shows that
		// there are more.
		if v.buckets == o.most {
			v.cut = true
			break
		}

		// The parent of an entity would take a read, so a disabled parent does
		// not mark a bucket.
		v.buckets++
		for i, s := range b.Statuses() {
			v.gauges = append(v.gauges, gauge{
				s.Entity, s.Resource, s.Limit, b.Tokens[i], s, 0,
				jsonview.Refusing(off, s.Resource, limiter.Entity{ID: s.Entity}),
			})
		}
	}

	err = o.countSpared(ctx, repo, &v)
	return v, err
}

// countSpared reads how often shadow limits would have refused in this hour. It
// reads nothing if there are no shadow limits.
func (o topOptions) countSpared(ctx context.Context, repo limiter.Repository, v *snapshot) error {
	var resources []string
	for _, g := range v.gauges {
		if g.limit.IsShadow && !slices.Contains(resources, g.resource) {
			resources = append(resources, g.resource)
		}
	}

	start, _ := limiter.Hourly.Bounds(v.at)
	spared := map[limiter.Scope]map[string]int64{}

	// One query for each resource has the usage of all its entities.
	for _, resource := range resources {
		q := limiter.UsageQuery{Entity: o.of.Entity, Resource: resource, Window: limiter.Hourly, From: start, To: start}
		for s, err := range repo.Usage(ctx, q) {
			if err != nil {
				return err
			}
			spared[limiter.Scope{Entity: s.Entity, Resource: s.Resource}] = s.WouldRefuse
		}
	}

	for i := range v.gauges {
		if g := &v.gauges[i]; g.limit.IsShadow {
			g.wouldRefuse = spared[limiter.Scope{Entity: g.entity, Resource: g.resource}][g.limit.Name]
		}
	}
	return nil
}

// share returns the part of the capacity that is left; negative is debt.
func (g gauge) share() float64 { return float64(g.tokens) / float64(g.limit.Capacity) }

func (g gauge) available() int64 { return bucket.Whole(g.tokens) }

// refusedCell returns the cell of the calls that a shadow limit would have refused.
func (g gauge) refusedCell() kit.Cell {
	if g.wouldRefuse == 0 {
		return kit.Text("")
	}
	return kit.Number(g.wouldRefuse)
}

// topJSON is one limit of a bucket as JSON.
type topJSON struct {
	Entity    string  `json:"entity_id" doc:"entity of the bucket"`
	Resource  string  `json:"resource" doc:"resource of the bucket"`
	Limit     string  `json:"limit_name" doc:"name of the limit"`
	Available int64   `json:"available" doc:"whole tokens left; negative is debt"`
	Capacity  int64   `json:"capacity" doc:"maximum number of tokens"`
	Refill    int64   `json:"refill_amount" doc:"tokens refilled every period; 0 for a quota"`
	Seconds   int64   `json:"refill_period_seconds" doc:"length of the period; 0 for a quota"`
	FullAfter float64 `json:"full_after_seconds" doc:"time until the bucket is full, if nothing more is taken"`
	jsonview.Kind
	jsonview.Bounds
	Dollars     *topDollars      `json:"dollars,omitempty"`
	WouldRefuse int64            `json:"would_refuse,omitempty"`
	Disabled    *jsonview.Switch `json:"disabled,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (topJSON) FieldDocs() map[string]string {
	return map[string]string{
		"dollars":      "capacity, refill_amount and available of a limit of money in dollars; absent for other limits",
		"would_refuse": "calls that a shadow limit would have refused in this hour; absent if there were none",
		"disabled":     "level of the entity and the resource that is off and refuses its calls; absent if none is",
	}
}

// topDollars holds the numbers of a limit of money in dollars.
type topDollars struct {
	jsonview.LimitDollars
	Available json.Number `json:"available" doc:"the same in dollars"`
}

func (g gauge) dollars() *topDollars {
	limit := jsonview.NewLimitDollars(g.limit)
	if limit == nil {
		return nil
	}
	return &topDollars{*limit, json.Number(figure.Decimal(g.available()))}
}

var topColumns = append(append([]kit.Column{
	{Title: "entity"},
	{Title: "resource"},
	{Title: "limit"},
	{Title: "available", Right: true},
	{Title: "capacity", Right: true},
	{Title: "refill", Right: true, Spare: true},
	{Title: "full in", Right: true},
}, kindColumns...), kit.Column{Title: "would refuse", Right: true, Keep: true, Extra: true}, offColumn)

func topListing() kit.Listing[gauge] {
	return kit.Listing[gauge]{
		Columns: topColumns,
		Row: func(g gauge) []kit.Cell {
			row := []kit.Cell{
				kit.Text(g.entity), kit.Text(g.resource), kit.Text(g.limit.Name),
				kit.Amount(g.limit.Name, g.available()),
				kit.Amount(g.limit.Name, g.limit.Capacity), kit.Rate(g.limit), fullIn(g.status),
			}
			return append(append(row, kindCells(g.status)...), g.refusedCell(), offCell(g.off))
		},
		Object: func(g gauge) any {
			l := jsonview.NewLimit(g.limit)
			return topJSON{
				g.entity, g.resource, l.Name, g.available(), l.Capacity, l.Refill, l.Seconds,
				jsonview.Seconds(g.status.FullAfter), l.Kind, jsonview.NewBounds(g.status), g.dollars(),
				g.wouldRefuse, jsonview.SwitchOrNull(g.off),
			}
		},
		Nothing: "There are no buckets: nothing was used lately.",
	}
}
