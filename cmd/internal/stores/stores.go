// Package stores tests what works on any store, such as manifests and load tests, on the
// stores that a module of its own implements. The modules of those packages must not
// require a store, even for their tests.
package stores
