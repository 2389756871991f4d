package escrow

import "context"

// Flush waits until all ended grants have been returned or dropped.
func (r *Repository) Flush() { _ = r.janitor.flush(context.Background()) }
