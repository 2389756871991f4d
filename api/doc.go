// Package api compares the exported API of the public packages with the text
// files beside it. It holds tests only; make api rewrites the files.
package api
