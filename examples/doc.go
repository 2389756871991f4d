// Package examples holds programs that use the limiter, one in each folder, and
// tests beside frameworks that the library itself does not need. It is a module of
// its own, so that none of them becomes a dependency of the library.
package examples
