package rules

import (
	"crypto/rand"
	"encoding/base64"
	"iter"
	"time"
)

// NewNamespaceID returns 8 random bytes as 11 characters. The first is not a
// hyphen.
func NewNamespaceID() string {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		// Commands take an ID as an argument, where a hyphen would begin a flag.
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// WholeSecond returns t in UTC, truncated to seconds. Stores keep the times of
// records in this form.
func WholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Sequence yields the values that collect returns. collect has returned before
// the first value, so no lock is held while the loop body runs. An error is the
// last pair.
func Sequence[T any](collect func() ([]T, error)) iter.Seq2[T, error] {
	return Pages(func(struct{}) (all []T, next *struct{}, err error) {
		all, err = collect()
		return all, nil, err
	})
}

// Pages yields the values of one page after another. fetch gets the end of the
// previous page, the zero value at first, and returns the end of its own page, or
// nil after the last one. An error is the last pair.
func Pages[T, P any](fetch func(after P) (page []T, next *P, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next := new(P)
		for next != nil {
			var page []T
			var err error
			page, next, err = fetch(*next)

			// A page that fails halfway yields what it has before the error.
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}

			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
		}
	}
}
