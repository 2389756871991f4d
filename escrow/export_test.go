package escrow

// Flush waits until all ended grants have been returned or dropped.
func (r *Repository) Flush() { r.janitor.flush() }
