// Package release tests what builds and publishes releases: the workflows, and the
// files of a snapshot. It holds tests only; make release-snapshot runs those that
// need a snapshot.
package release
