package main

import "context"

// frontParts lists the parts of the section front. Each prints a table and adds
// its targets.
var frontParts = []func(context.Context, config, *report) error{
	frontHandler,
	frontTelemetry,
	frontEnvoy,
	frontServe,
	frontProxy,
}

// frontSection measures what stands in front of traffic.
func frontSection(ctx context.Context, cfg config, r *report) error {
	for _, part := range frontParts {
		if err := part(ctx, cfg, r); err != nil {
			return err
		}
	}
	return nil
}
