// Package envoy holds the configuration of Envoy with zae-limiter as its rate
// limit service, and a test that runs it.
package envoy
