package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// oldTree is an entity whose charges end at its parent because its record is from
// before there were deep trees.
type oldTree struct {
	Namespace string `json:"namespace" doc:"name of the namespace"`
	Entity    string `json:"entity_id" doc:"ID of the entity"`
	Next      string `json:"next_id" doc:"ancestor that would pay too if the entity were created again"`
}

// mostEntities is how many entities of a namespace check reads, and mostTrees how many
// entities it lists.
const mostEntities, mostTrees = 10_000, 100

// findOldTrees lists the entities whose charges would go further if they were created
// again. It reports whether the list is whole.
func findOldTrees(ctx context.Context, repo limiter.Repository) (found []oldTree, whole bool, err error) {
	whole = true
	for ns, err := range repo.Namespaces(ctx) {
		if err != nil {
			return nil, false, err
		}
		if !ns.DeletedAt.IsZero() {
			continue
		}

		all, read, err := readEntities(ctx, repo, ns.Name)
		if err != nil {
			return nil, false, err
		}
		whole = whole && read

		for id, e := range all {
			if !e.Cascade || e.Generation != 0 {
				continue
			}
			if parent := all[e.Parent]; parent.Cascade && parent.Parent != id {
				found = append(found, oldTree{ns.Name, id, parent.Parent})
			}
		}
	}
	slices.SortFunc(found, func(a, b oldTree) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Entity, b.Entity))
	})
	return found, whole, nil
}

// readEntities reads the entities of a namespace by ID, and reports whether these are
// all.
func readEntities(
	ctx context.Context, repo limiter.Repository, name string,
) (all map[string]limiter.Entity, whole bool, err error) {
	view, err := repo.Namespace(ctx, name)
	// A namespace may be deleted meanwhile, and check reports buckets of newer releases
	// by themselves.
	if errors.Is(err, limiter.ErrNotFound) || kit.Is[*limiter.VersionError](err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()

	all = map[string]limiter.Entity{}
	for e, err := range view.Entities(ctx, "") {
		if err != nil {
			return nil, false, err
		}
		if len(all) == mostEntities {
			return all, false, nil
		}
		all[e.ID] = e
	}
	return all, true, nil
}

// treeProperties returns a property for each old tree, and one for what is left out.
func treeProperties(trees []oldTree, whole bool) []kit.Property {
	var properties []kit.Property
	for i, t := range trees {
		if i == mostTrees {
			properties = append(properties, kit.Property{
				Name: "old_trees", Value: kit.Text(fmt.Sprintf("%d more", len(trees)-i)),
			})
			break
		}
		properties = append(properties, kit.Property{
			Name: "old_tree", Value: kit.Text(fmt.Sprintf("%s in namespace %s: created again, it would charge %s too",
				t.Entity, t.Namespace, t.Next)),
		})
	}
	if !whole {
		properties = append(properties, kit.Property{
			Name:  "old_trees",
			Value: kit.Text(fmt.Sprintf("only %d entities of each namespace were read", mostEntities)),
		})
	}
	return properties
}
