package main

import (
	"context"
	"errors"
)

// frontParts lists the parts of the section front that measure packages. Each
// prints a table and adds its targets.
var frontParts = []func(context.Context, config, *report) error{
	frontHandler,
	frontTelemetry,
}

// programParts lists the parts that measure the program in the same way.
var programParts = []func(context.Context, config, *report, *program) error{
	frontEnvoy,
	frontServe,
	frontProxy,
}

// frontSection measures what stands in front of traffic.
func frontSection(ctx context.Context, cfg config, r *report) (err error) {
	for _, part := range frontParts {
		if err := part(ctx, cfg, r); err != nil {
			return err
		}
	}

	built, err := buildProgram(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, built.remove()) }()
	for _, part := range programParts {
		if err := part(ctx, cfg, r, built); err != nil {
			return err
		}
	}
	return nil
}
