package main

import (
	"context"
	"errors"
	"strconv"
)

// limitsSection shows how the cost of an acquire grows with the limits of a
// bucket.
func limitsSection(ctx context.Context, cfg config, r *report) error {
	keys := newKeyset(1)
	var made []library
	var contenders []contender[int]

	for _, n := range cfg.limits {
		lib, err := newOursInMemory(ctx, keys, 1, n)
		if err != nil {
			return errors.Join(err, closeLibraries(made))
		}
		made = append(made, lib)
		contenders = append(contenders, contender[int]{n, parallel(1, lib.take)})
	}

	times, err := measure(ctx, cfg, contenders)
	if err := errors.Join(err, closeLibraries(made)); err != nil {
		return err
	}

	var rows [][]string
	for _, n := range cfg.limits {
		rows = append(rows, []string{strconv.Itoa(n), times[n].nanos(), times[n].over(times[cfg.limits[0]]).ratio()})
	}
	return r.table([]string{"limits", "ns/op", "x 1 limit"}, rows)
}
