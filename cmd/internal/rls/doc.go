// Package rls is Envoy's rate limit service, version 3. Rules of a file turn the
// descriptors that Envoy sends into requests of a limiter.
//
// A descriptor that no rule matches is admitted, as in Envoy's own service. A
// descriptor that a rule matches and the limiter cannot judge, such as one with
// a value that is not a valid ID, is refused: an error would make Envoy admit it
// by default, and clients choose such values. Only outages are errors, so that
// Envoy's failure mode decides.
package rls
