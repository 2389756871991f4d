package dashboard

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// position is where an overview goes on: after a bucket in a page of the store, or
// with the whole page if entity is "".
type position struct {
	page             string // the cursor of the page
	entity, resource string
}

// positionMark separates the cursor of the page from the bucket.
const positionMark = "~"

// String returns the position as text. After the last page it is "", since no page
// with a cursor follows.
func (p position) String() string {
	// A cursor that contains the mark needs the long form, or parsePosition
	// would cut it there.
	if p.entity == "" && !strings.Contains(p.page, positionMark) {
		return p.page
	}

	return p.inside()
}

// inside returns a position within a page as text. It is not "", not even at the
// start of the first page.
func (p position) inside() string {
	bucket := limiter.Bucket{Account: &limiter.Account{Entity: p.entity, Resource: p.resource}}
	return p.page + positionMark + cursorOf(bucket)
}

// parsePosition reverts String and inside.
func parsePosition(text string) (position, error) {
	// The last mark is ours: the cursor before it may contain one, and base64
	// has none.
	i := strings.LastIndex(text, positionMark)
	if i < 0 {
		return position{page: text}, nil
	}

	after, err := parseCursor(text[i+len(positionMark):])
	if err != nil || after == nil {
		return position{}, &limiter.InvalidError{
			Field: "after", Value: web.Clip(text), Reason: "must be the position of an earlier page",
		}
	}

	return position{text[:i], after.Account.Entity, after.Account.Resource}, nil
}

// rest returns the buckets of the page after the position.
func (p position) rest(buckets []limiter.Bucket) []limiter.Bucket {
	passed := limiter.Bucket{Account: &limiter.Account{Entity: p.entity, Resource: p.resource}}
	for len(buckets) > 0 && p.entity != "" && compareBuckets(buckets[0], passed) <= 0 {
		buckets = buckets[1:]
	}
	return buckets
}
