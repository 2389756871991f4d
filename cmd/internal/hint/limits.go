package hint

import "fmt"

// NoLimitsError reports a call that a server could not judge, because its operator
// has stored no limits for the entity and the resource of the call.
type NoLimitsError struct {
	Namespace        string // "" for the namespace of the server
	Entity, Resource string
	Err              error // of the limiter
}

// Error says what is missing and what to store.
func (e *NoLimitsError) Error() string {
	return fmt.Sprintf(
		"there are no limits for entity %s and resource %s at any level; store some, such as defaults of the resource",
		e.Entity, e.Resource,
	)
}

// Unwrap returns the error of the limiter.
func (e *NoLimitsError) Unwrap() error { return e.Err }
