// Package interop tests this library beside the Python one on a single table.
// It holds tests and their fixtures only.
package interop
