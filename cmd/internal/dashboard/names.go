package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// label is the part of an entity's record that a row shows.
type label struct {
	name, parent string
	cascade      bool
	generation   int64
}

// Bounds of names. Few are read at a time, so that they leave most of a read budget
// to rows.
const (
	maxNames      = 10_000
	maxNameReads  = 4
	maxNameLength = 1024
	failedNameFor = time.Second
)

// readLabel returns the label of an entity, and its life. An entity without a
// record, or with a damaged one, has an empty label.
func (s *space) readLabel(ctx context.Context, id string) (label, time.Duration, error) {
	e, err := s.repo.Entity(ctx, id)
	// A record that is missing, damaged or impossible stays so. Reading it
	// again soon would tell nothing.
	if err == nil || errors.Is(err, limiter.ErrNotFound) || errors.As(err, new(*limiter.CorruptError)) ||
		errors.As(err, new(*limiter.InvalidError)) {
		return newLabel(e), s.pace.namesFor, nil
	}
	return label{}, failedNameFor, err
}

// newLabel returns the label of a record.
func newLabel(e limiter.Entity) label {
	if len(e.Name) > maxNameLength {
		e.Name = strings.ToValidUTF8(e.Name[:maxNameLength], "") + "..."
	}
	return label{e.Name, e.Parent, e.Cascade, e.Generation}
}

// learn keeps the label of a record that was read for another reason.
func (s *space) learn(e limiter.Entity) { s.names.put(e.ID, newLabel(e), s.pace.namesFor) }

// labels returns the labels of entities. It waits for those that were never read
// until patience is over; they appear in a later call. An old label is good enough
// until it is read again.
func (s *space) labels(ctx context.Context, ids []string, patience time.Duration) map[string]label {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	// All reads are asked for before the first wait.
	asked := make(map[string]*reading[label], len(ids))
	for _, id := range ids {
		asked[id] = s.names.ask(id)
	}

	labels := make(map[string]label, len(ids))
	for id, one := range asked {
		if l, known, _ := s.names.await(ctx, one, true); known {
			labels[id] = l
		}
	}
	return labels
}

// withAncestors adds the labels of the ancestors that charges of the labelled entities
// reach, as far as they are known until patience is over.
func (s *space) withAncestors(ctx context.Context, labels map[string]label, patience time.Duration) map[string]label {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for range chain.MaxLevels {
		var missing []string
		for _, l := range labels {
			if _, known := labels[l.parent]; !known && l.cascade && !slices.Contains(missing, l.parent) {
				missing = append(missing, l.parent)
			}
		}
		if len(missing) == 0 {
			break
		}

		above := s.labels(ctx, missing, patience)
		if len(above) == 0 {
			break
		}
		maps.Copy(labels, above)
	}
	return labels
}

// allLabels returns the labels of entities. It waits for all of them, but at most
// until the given time, and tries again where a read fails.
func (s *space) allLabels(ctx context.Context, ids []string, until time.Time) map[string]label {
	for {
		labels := s.labels(ctx, ids, time.Until(until))
		if !slices.ContainsFunc(ids, func(id string) bool { _, known := labels[id]; return !known }) {
			return labels
		}

		// A name whose read failed is not read again for failedNameFor, and
		// labels does not wait for it.
		left := time.Until(until)
		if left <= 0 || pause.For(ctx, min(failedNameFor, left)) != nil {
			return labels
		}
	}
}

// ancestor is an entity above others in the tree.
type ancestor struct {
	Entity string `json:"entity"`
	Name   string `json:"name"`
	Parent string `json:"parent"`
}

// maxGenerations bounds the ancestors of a row. A cascade has one generation;
// more are for the tree alone.
const maxGenerations = 16

// ancestors returns the ancestors of rows, each once, so that a cycle ends.
func (s *space) ancestors(ctx context.Context, rows []Row, patience time.Duration) []ancestor {
	all := []ancestor{}
	found := map[string]bool{}
	var next []string

	for _, r := range rows {
		if r.Parent != "" && !found[r.Parent] {
			found[r.Parent] = true
			next = append(next, r.Parent)
		}
	}

	for range maxGenerations {
		if len(next) == 0 {
			break
		}

		labels := s.labels(ctx, next, patience)
		var above []string
		for _, id := range next {
			l := labels[id]
			all = append(all, ancestor{id, l.display(id), l.parent})
			if l.parent != "" && !found[l.parent] {
				found[l.parent] = true
				above = append(above, l.parent)
			}
		}

		next = above
	}
	return all
}

// display returns the name to show for an entity.
func (l label) display(id string) string {
	if l.name == "" {
		return id
	}
	return l.name
}
