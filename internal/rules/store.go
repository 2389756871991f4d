package rules

import (
	"crypto/rand"
	"encoding/base64"
	"iter"
	"time"
)

// NewNamespaceID is 8 random bytes as 11 characters, not beginning with a
// hyphen.
func NewNamespaceID() string {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// WholeSecond is t as stores keep times of records: UTC, truncated.
func WholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Sequence yields what collect returns, after it returned: no lock is held
// while the loop body runs. An error is the last pair.
func Sequence[T any](collect func() ([]T, error)) iter.Seq2[T, error] {
	return Pages(func(struct{}) (all []T, next *struct{}, err error) {
		all, err = collect()
		return all, nil, err
	})
}

// Pages yields page after page. fetch gets where the last page ended, the zero
// value at first, and tells where to go on, nil at the end.
func Pages[T, P any](fetch func(after P) (page []T, next *P, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next := new(P)
		for next != nil {
			var page []T
			var err error
			page, next, err = fetch(*next)
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
