package llm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
)

// zipped keeps a compressed answer until its end.
type zipped struct {
	content []byte
	limit   int64
	tooLong bool
}

func newZipped(opts *AnswerOptions) *zipped {
	if opts == nil {
		opts = &AnswerOptions{}
	}
	return &zipped{limit: cmp.Or(opts.MaxBytes, DefaultMaxBytes)}
}

func (z *zipped) write(p []byte) {
	// Dropping the content at once frees its memory.
	if int64(len(z.content)+len(p)) > z.limit {
		z.content, z.tooLong = nil, true
	}

	if !z.tooLong {
		z.content = append(z.content, p...)
	}
}

// copyTo writes the decompressed answer to a, up to the limit. An answer that was
// cut is decompressed as far as it goes.
func (z *zipped) copyTo(a *Answer) {
	if z.tooLong {
		return
	}

	r, err := gzip.NewReader(bytes.NewReader(z.content))
	if err != nil {
		return
		// An answer that was cut ends with an error. What came before it counts.
	}
	_, _ = io.CopyN(a, r, z.limit)
}
