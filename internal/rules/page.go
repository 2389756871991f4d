package rules

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Position is a point among the buckets of a namespace, which are ordered by
// entity, then resource: after one bucket, or after all buckets of an entity if
// Resource is "". The zero Position is before all buckets.
type Position struct{ Entity, Resource string }

// Passed reports whether a bucket is not after the position.
func (p Position) Passed(entity, resource string) bool {
	if entity != p.Entity {
		return entity < p.Entity
	}
	return p.Resource == "" || resource <= p.Resource
}

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPrefix is the length of the longest ID.
	maxPrefix = 256
	// maxPosition is more than the names of a bucket in any store have. A longer
	// cursor is forged.
	maxPosition = 900
	// cursorVersion is the first byte of a cursor.
	cursorVersion = 1
)

// StartPage returns the position after which the page of a query begins, and the
// number of its buckets. It returns a *limiter.InvalidError for a query that is
// not valid.
func StartPage(q limiter.BucketQuery) (after Position, size int, err error) {
	if q.Max < 0 {
		return after, 0, &limiter.InvalidError{Field: "max", Reason: "must not be negative"}
	}

	if len(q.Prefix) > maxPrefix {
		return after, 0, &limiter.InvalidError{
			Field: "prefix", Reason: "must have at most " + strconv.Itoa(maxPrefix) + " bytes, as IDs do",
		}
	}

	if q.After != "" {
		// A position without the prefix comes from another list, and would skip
		// buckets of this one.
		var ok bool
		if after, ok = parseCursor(q.After); !ok || len(after.Entity)+len(after.Resource) > maxPosition ||
			!strings.HasPrefix(after.Entity, q.Prefix) {
			return after, 0, &limiter.InvalidError{
				Field: "after", Value: q.After,
				Reason: "is no cursor of this list; pass the next of a page with the same prefix",
			}
		}
	}

	size = min(q.Max, maxPage)
	if q.Max == 0 {
		size = defaultPage
	}
	return after, size, nil
}

// Cursor returns the position as the Next of a page.
func (p Position) Cursor() string {
	text := binary.AppendUvarint([]byte{cursorVersion}, uint64(len(p.Entity)))
	text = append(append(text, p.Entity...), p.Resource...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// parseCursor reverts Cursor.
func parseCursor(s string) (p Position, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(s)
	const shortest = 1 + 1 + 1 + crc32.Size
	if err != nil || len(text) < shortest || text[0] != cursorVersion {
		return p, false
	}

	size, n := binary.Uvarint(text[1:])
	// The length may have been read from the bytes of the checksum.
	if n <= 0 || len(text) < 1+n+crc32.Size {
		return p, false
	}

	rest := text[1+n : len(text)-crc32.Size]
	// An entity has a name, so a position without one is forged.
	if size == 0 || size > uint64(len(rest)) {
		return p, false
	}

	// Each position has one cursor. Encoding it again compares the checksum, and
	// refuses a longer spelling of the length.
	p = Position{string(rest[:size]), string(rest[size:])}
	return p, p.Cursor() == s
}
