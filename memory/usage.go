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

// series is the usage of one entity and resource. It is kept small, since there
// is one for every bucket that ever was within the retention: hours alone are
// counted, days and months are their sums. An hour that is past its retention
// is added to its day, and that to its month.
type series struct {
	link[series]
	entity   string
	resource unique.Handle[string]
	limits   names
	rows     []int64 // for each part: when, the events, and a count for each limit
}

// names are those of limits, each ended by a zero byte: few lists serve many
// series.
type names = unique.Handle[string]

// A part's when is its start in milliseconds plus the index of its window, which
// fits into the bits that are zero in every whole hour.
const windowBits = 3

// Indices of rules.Windows, and how long after its start the shorter ones end.
const (
	hourly, monthly     = 0, 2
	hourlyEnd, dailyEnd = (3600 - 1) * 1000, (24*3600 - 1) * 1000
)

// part is a row of a series.
type part []int64

func (p part) window() int { return int(p[0] & windowBits) }

// counts are those of the limits, after when and the events.
func (p part) counts() []int64 { return p[2:] }

func (p part) add(other part) {
	for i := range p[1:] {
		p[1+i] = bucket.Add(p[1+i], other[1+i])
	}
}

// in is when the window begins that has this part in it.
func (p part) in(window int) int64 {
	begin, _ := p.bounds(window)
	return begin.UnixMilli() + int64(window)
}

// bounds are those of the window that has this part in it.
func (p part) bounds(window int) (begin, end time.Time) {
	return rules.Windows[window].Bounds(time.UnixMilli(p[0] &^ windowBits))
}

// width is how many numbers a part has.
func (s *series) width() int { return 2 + strings.Count(s.limits.Value(), "\x00") }

// list is the names.
func list(of names) []string { return strings.Split(strings.TrimSuffix(of.Value(), "\x00"), "\x00") }

// parts ranges over the rows as they are now, the oldest first, more or less.
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

// at is the part of a time, which is made if there is none. Most calls are about
// the last.
func (s *series) at(when int64) part {
	width := s.width()
	for i := len(s.rows) - width; i >= 0; i -= width {
		if s.rows[i] == when {
			return part(s.rows[i : i+width])
		}
	}
	if s.rows == nil {
		s.rows = make([]int64, 0, width)
	}
	s.rows = append(s.rows, make([]int64, width)...)
	last := s.rows[len(s.rows)-width:]
	last[0] = when
	return last
}

// book adds what limits used in an hour.
func (s *series) book(limits names, u rules.Usage) {
	columns := s.columns(limits)
	p := s.at(u.Hour)
	p[1] = bucket.Add(p[1], u.Events)
	for i, n := range u.Used {
		to := i
		if columns != nil {
			to = columns[i]
		}
		p.counts()[to] = bucket.Add(p.counts()[to], n)
	}
}

// columns are where each of the limits is counted, nil if that is where it is
// in the list. Those that were not counted yet get a column.
func (s *series) columns(limits names) (columns []int) {
	if s.limits == limits {
		return nil
	}
	own := list(s.limits)
	for _, name := range list(limits) {
		at := slices.Index(own, name)
		if at < 0 {
			at = len(own)
			own = append(own, name)
		}
		columns = append(columns, at)
	}
	wide := make([]int64, 0, len(s.rows)/s.width()*(2+len(own)))
	for p := range s.parts() {
		wide = append(wide, p...)
		wide = append(wide, make([]int64, 2+len(own)-len(p))...)
	}
	s.limits, s.rows = unique.Make(strings.Join(own, "\x00")+"\x00"), wide
	return columns
}

// fold adds parts that are past their retention to those of longer windows,
// drops what no window keeps, and tells whether anything is left.
func (s *series) fold(now int64, retention time.Duration) bool {
	some := false
	for p := range s.parts() {
		some = some || p.over(now, retention)
	}
	if !some {
		return len(s.rows) > 0
	}
	all := s.parts()
	s.rows = nil
	for p := range all {
		for p.over(now, retention) && p.window() < monthly {
			p[0] = p.in(p.window() + 1)
		}
		if !p.over(now, retention) {
			s.at(p[0]).add(p)
		}
	}
	return len(s.rows) > 0
}

// over tells whether the window of a part is past its retention.
func (p part) over(now int64, retention time.Duration) bool {
	last := now - retention.Milliseconds() // what ends later is kept
	switch p.window() {
	case hourly: // without the detour over dates: there are many
		return p[0]+hourlyEnd <= last
	case monthly:
		_, end := p.bounds(monthly)
		return end.UnixMilli() <= last
	}
	return p[0]&^windowBits+dailyEnd <= last
}

// snapshots are those of all windows.
func (s *series) snapshots() []limiter.UsageSnapshot {
	sums := series{limits: s.limits}
	for p := range s.parts() {
		for w := p.window(); w < len(rules.Windows); w++ {
			sums.at(p.in(w)).add(p)
		}
	}
	limits := list(s.limits)
	var all []limiter.UsageSnapshot
	for p := range sums.parts() {
		u := limiter.UsageSnapshot{
			Entity: s.entity, Resource: s.resource.Value(), Window: rules.Windows[p.window()],
			Counters: make(map[string]int64, len(limits)), Events: p[1],
		}
		u.Start, u.End = p.bounds(p.window())
		for i, n := range p.counts() {
			if n != 0 { // given back as much as taken
				u.Counters[limits[i]] = n
			}
		}
		all = append(all, u)
	}
	return all
}

// nameCache knows the names of the limits asked for last: most buckets have the
// same, down to the list.
type nameCache struct {
	of    []limiter.Limit
	names names
}

// get is the names of some limits.
func (c *nameCache) get(limits []limiter.Limit) names {
	if len(limits) > 0 && len(c.of) == len(limits) && &c.of[0] == &limits[0] {
		return c.names
	}
	var b strings.Builder
	for _, l := range limits {
		b.WriteString(l.Name)
		b.WriteByte(0)
	}
	c.of, c.names = limits, unique.Make(b.String())
	return c.names
}

// book adds a bucket's usage to its series. The caller holds the shard's mutex.
func (s *shard) book(account *limiter.Account, u rules.Usage) error {
	limits := s.names.get(account.Limits)
	of := s.series(account.Entity, account.Resource)
	if of == nil {
		of = &series{entity: account.Entity, resource: unique.Make(account.Resource), limits: limits}
		of.hash = s.hash(account.Entity)
		s.usage.add(of)
	}
	of.book(limits, u)
	return nil
}

// snapshots are those of a query. What buckets have not booked yet is booked
// first: it is the same usage, elsewhere.
func (s *shard) snapshots(q limiter.UsageQuery) (all []limiter.UsageSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.each(limiter.Scope{Entity: q.Entity, Resource: q.Resource}) {
		_ = e.Flush(s.book) // the book of this store does not fail
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

// series is that of an entity and resource, nil if there is none.
func (s *shard) series(entity, resource string) *series {
	for u := range s.usages(entity) {
		if u.resource.Value() == resource {
			return u
		}
	}
	return nil
}

// usages ranges over the series of an entity, or all.
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
