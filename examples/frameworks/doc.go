// Package frameworks tests the middleware with the routers and the parser of
// others.
package frameworks
