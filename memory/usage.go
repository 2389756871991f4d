package memory

import (
	"iter"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// series is the usage of one entity and resource. It is compact, since there is
// one for every bucket within the retention. It counts hours; days and months are
// sums. An hour past its retention is added to its day, and a day to its month.
type series struct {
	link[series]
	entity   string
	resource unique.Handle[string]
	limits   names
	// rows holds for each part its start and window, its events, and a count for
	// each limit.
	rows []int64
}

// names is a list of limit names, each terminated by a zero byte. Many series
// share one list.
type names = unique.Handle[string]

// windowBits masks the index of the window in the first number of a part. The
// other bits are the start in milliseconds, which has zeros there for every whole
// hour.
const windowBits = 3

// Indices of rules.Windows, and the length of the shorter windows up to their last
// second, in milliseconds.
const (
	hourly, monthly     = 0, 2
	hourlyEnd, dailyEnd = (3600 - 1) * 1000, (24*3600 - 1) * 1000
)

// part is a row of a series.
type part []int64

func (p part) window() int { return int(p[0] & windowBits) }

// counts returns the counts of the limits.
func (p part) counts() []int64 { return p[2:] }

func (p part) add(other part) {
	for i := range p[1:] {
		p[1+i] = bucket.Add(p[1+i], other[1+i])
	}
}

// start returns the first number of a part for the given window that contains p.
func (p part) start(window int) int64 {
	begin, _ := p.bounds(window)
	return begin.UnixMilli() + int64(window)
}

// bounds returns the bounds of the given window that contains p.
func (p part) bounds(window int) (begin, end time.Time) {
	return rules.Windows[window].Bounds(time.UnixMilli(p[0] &^ windowBits))
}

// width returns how many numbers a part has.
func (s *series) width() int { return 2 + strings.Count(s.limits.Value(), "\x00") }

// split returns the names of a list.
func split(list names) []string {
	return strings.Split(strings.TrimSuffix(list.Value(), "\x00"), "\x00")
}

// parts iterates over the rows as they are now, roughly the oldest first.
func (s *series) parts() iter.Seq[part] {
	width, all := s.width(), s.rows
	return func(yield func(part) bool) {
		for rows := all; len(rows) > 0; rows = rows[width:] {
			if !yield(part(rows[:width:width])) {
				return
			}
		}
	}
}

// at returns the part that starts with a number, and adds it if there is none. It
// searches from the end, because most calls are for the last part.
func (s *series) at(start int64) part {
	width := s.width()
	for i := len(s.rows) - width; i >= 0; i -= width {
		if s.rows[i] == start {
			return part(s.rows[i : i+width])
		}
	}

	if s.rows == nil {
		// A series is compact: append alone would get room for more rows.
		s.rows = make([]int64, 0, width)
	}

	s.rows = append(s.rows, make([]int64, width)...)
	last := s.rows[len(s.rows)-width:]
	last[0] = start
	return last
}

// book adds the usage of an hour. values has a number for each of the limits.
func (s *series) book(limits names, u rules.Usage, values []int64) {
	columns := s.columns(limits)
	p := s.at(u.Hour)

	p[1] = bucket.Add(p[1], u.Events)
	for i, n := range values {
		to := i
		if columns != nil {
			to = columns[i]
		}
		p.counts()[to] = bucket.Add(p.counts()[to], n)
	}
}

// columns returns the column of each limit, nil if it is the limit's index. It
// adds columns for new limits.
func (s *series) columns(limits names) (columns []int) {
	if s.limits == limits {
		return nil
	}

	own := split(s.limits)
	for _, name := range split(limits) {
		at := slices.Index(own, name)
		if at < 0 {
			at = len(own)
			own = append(own, name)
		}
		columns = append(columns, at)
	}

	wide := make([]int64, 0, len(s.rows)/s.width()*(2+len(own)))
	// Rows get zeros for the new columns.
	for p := range s.parts() {
		wide = append(wide, p...)
		wide = append(wide, make([]int64, 2+len(own)-len(p))...)
	}

	s.limits, s.rows = unique.Make(strings.Join(own, "\x00")+"\x00"), wide
	return columns
}

// rollUp adds parts that are past their retention to longer windows, drops expired
// months, and reports whether anything is left.
func (s *series) rollUp(now int64, retention time.Duration) bool {
	expired := false
	// Most series have nothing to roll up, and need no copy.
	for p := range s.parts() {
		expired = expired || p.expired(now, retention)
	}

	if !expired {
		return len(s.rows) > 0
	}

	// The iterator keeps the old rows, while the new ones are built from
	// nothing.
	all := s.parts()
	s.rows = nil
	for p := range all {
		// An hour that is past the retention of its day as well goes to its
		// month, and one that is past all goes away.
		for p.expired(now, retention) && p.window() < monthly {
			p[0] = p.start(p.window() + 1)
		}

		if !p.expired(now, retention) {
			s.at(p[0]).add(p)
		}
	}
	return len(s.rows) > 0
}

// expired reports whether the window of a part is past its retention.
func (p part) expired(now int64, retention time.Duration) bool {
	last := now - retention.Milliseconds() // windows that end later are kept
	switch p.window() {
	case hourly: // the most frequent case avoids date arithmetic
		return p[0]+hourlyEnd <= last
	case monthly:
		_, end := p.bounds(monthly)
		return end.UnixMilli() <= last
	}
	return p[0]&^windowBits+dailyEnd <= last
}

// snapshots returns the snapshots of all windows.
func (s *series) snapshots() []limiter.UsageSnapshot {
	sums := series{limits: s.limits}

	for p := range s.parts() {
		// A row counts in its own window and in the longer ones: an hour also
		// in its day and its month.
		for w := p.window(); w < len(rules.Windows); w++ {
			sums.at(p.start(w)).add(p)
		}
	}

	limits := split(s.limits)
	var all []limiter.UsageSnapshot
	for p := range sums.parts() {
		u := limiter.UsageSnapshot{
			Entity: s.entity, Resource: s.resource.Value(), Window: rules.Windows[p.window()],
			Counters: make(map[string]int64, len(limits)), Events: p[1],
		}
		u.Start, u.End = p.bounds(p.window())

		for i, n := range p.counts() {
			spared, isSpared := strings.CutPrefix(limits[i], sparedMark)
			switch {
			// A lease may have given back all that it took.
			case n == 0:
			case isSpared:
				u.WouldRefuse = rules.AddCount(u.WouldRefuse, spared, n)
			default:
				u.Counters[limits[i]] = n
			}
		}

		all = append(all, u)
	}
	return all
}

// nameCache caches the names of the last list of limits. Most buckets share one
// list.
type nameCache struct {
	limits []limiter.Limit
	names  names
}

// get returns the names of limits.
func (c *nameCache) get(limits []limiter.Limit) names {
	// Limits are replaced and never changed, so the same array has the same
	// names.
	if len(limits) > 0 && len(c.limits) == len(limits) && &c.limits[0] == &limits[0] {
		return c.names
	}

	var b strings.Builder
	for _, l := range limits {
		b.WriteString(l.Name)
		b.WriteByte(0)
	}
	c.limits, c.names = limits, unique.Make(b.String())
	return c.names
}

// book adds a bucket's usage to its series. The caller holds the shard's mutex.
func (s *shard) book(account *limiter.Account, u rules.Usage) error {
	limits := s.names.get(account.Limits)
	usage := s.series(account.Entity, account.Resource)

	if usage == nil {
		usage = &series{entity: account.Entity, resource: unique.Make(account.Resource), limits: limits}
		usage.hash = s.hash(account.Entity)
		s.usage.add(usage)
	}

	usage.book(limits, u, u.Used)
	// The call above has counted the event.
	if u.Spared != nil {
		u.Events = 0
		usage.book(sparedNames(account.Limits), u, u.Spared)
	}
	return nil
}

// sparedMark starts the name of a count of how often a limit was spared. No limit
// has such a name.
const sparedMark = "\x01"

// sparedNames returns the names of the counts of how often limits were spared.
func sparedNames(limits []limiter.Limit) names {
	var b strings.Builder
	for _, l := range limits {
		b.WriteString(sparedMark + l.Name + "\x00")
	}
	return unique.Make(b.String())
}

// snapshots returns the snapshots that match a query. It first books the usage
// that buckets still hold.
func (s *shard) snapshots(q limiter.UsageQuery) (all []limiter.UsageSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for e := range s.each(limiter.Scope{Entity: q.Entity, Resource: q.Resource}) {
		_ = e.Flush(s.book) // book never fails
	}

	for u := range s.usages(q.Entity) {
		if q.Resource != "" && u.resource.Value() != q.Resource {
			continue
		}
		for _, snap := range u.snapshots() {
			if q.Match(snap) {
				all = append(all, snap)
			}
		}
	}
	return all
}

// series returns the series of an entity and resource, or nil.
func (s *shard) series(entity, resource string) *series {
	for u := range s.usages(entity) {
		if u.resource.Value() == resource {
			return u
		}
	}
	return nil
}

// usages iterates over the series of an entity, or over all if entity is empty.
func (s *shard) usages(entity string) iter.Seq[*series] {
	if entity == "" {
		return s.usage.all()
	}
	return func(yield func(*series) bool) {
		hash := s.hash(entity)
		for u := s.usage.first(hash); u != nil; u = u.next {
			if u.hash == hash && u.entity == entity && !yield(u) {
				return
			}
		}
	}
}
