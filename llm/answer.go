package llm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"mime"
	"slices"
	"strings"
)

// Answer reads the usage from an answer as its bytes pass by. It keeps a few
// kilobytes of an answer at most, and up to MaxBytes of a compressed one. It never
// fails: an answer in another form has an unknown usage.
type Answer struct {
	format Format
	stream bool
	zipped *zipped // nil unless the answer is compressed
	opaque bool    // the encoding is unknown

	events eventSplitter
	scan   scanner
	start  []byte // the first bytes of an event's data, to find the end of a stream

	usage     Usage
	anthropic anthropic
	input     bool  // usage.Input is known
	complete  bool  // usage is known
	reported  bool  // usage holds a report that the end of a stream makes final
	unnamed   int64 // tokens of usage.Output that only the total of the report shows
	text      int64 // bytes of text in the body, or in the events that have ended
	grown     bool  // the last call of writeEvent ended an event with text
}

// AnswerOptions configures NewAnswer.
type AnswerOptions struct {
	// MaxBytes bounds how much of a compressed answer is kept, and how much of it
	// is read after decompression; default DefaultMaxBytes. The usage of a longer
	// answer is unknown.
	MaxBytes int64
}

// DefaultMaxBytes is the default of AnswerOptions.MaxBytes.
const DefaultMaxBytes = 16 << 20

const streamEnd = "[DONE]"

// unfinished lists the events of Responses that hold the response before its end.
// A usage in them, which some servers send, is not the truth.
var unfinished = []string{"response.created", "response.queued", "response.in_progress"}

// NewAnswer returns a reader of an answer with the given Content-Type and
// Content-Encoding. It reads plain and gzip encodings.
func NewAnswer(f Format, contentType, encoding string, opts *AnswerOptions) *Answer {
	media, _, _ := mime.ParseMediaType(contentType)
	a := &Answer{format: f, stream: media == "text/event-stream"}

	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		a.zipped = newZipped(opts)
	default:
		a.opaque = true
	}
	return a
}

// Write reads the next part of the answer. It always returns len(p) and nil.
func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.opaque:
	case a.zipped != nil:
		a.zipped.write(p)
	case a.stream:
		a.writeStream(p)
	default:
		a.scan.write(p)
		a.text = a.scan.found.text
	}
	return len(p), nil
}

// Close ends the answer, so that Usage is final. It always returns nil.
func (a *Answer) Close() error {
	// Without zipped, a takes the plain bytes that copyTo writes. What comes
	// after Close does not count.
	if a.zipped != nil {
		z := a.zipped
		a.zipped = nil
		z.copyTo(a)
		a.opaque = true
	}

	switch {
	case a.complete:
	case a.stream:
		a.endCut()
	default:
		a.endBody()
	}
	return nil
}

// Usage returns the usage and reports whether it is final. If it is not, Input is
// 0 unless the answer reported it, and Output is an estimate of what has arrived
// so far: what the answer reported, or its text at four bytes a token.
func (a *Answer) Usage() (u Usage, complete bool) {
	u = a.usage
	if !a.complete {
		u.Output = max(u.Output, a.text/bytesPerToken)
	}
	return u, a.complete
}

// inputKnown reports whether the answer has reported the tokens of the prompt.
func (a *Answer) inputKnown() bool { return a.complete || a.input }

func (a *Answer) writeStream(p []byte) {
	for len(p) > 0 {
		p = p[a.writeEvent(p):]
	}
}

// writeEvent reads p up to the end of an event, and returns how much that is. It
// reads all of an answer that is no plain stream.
func (a *Answer) writeEvent(p []byte) int {
	if a.opaque || a.zipped != nil {
		n, _ := a.Write(p)
		return n
	}
	a.grown = false

	n, ended := a.events.next(p, a.writeData)
	if ended {
		a.endEvent()
	}
	return n
}

func (a *Answer) writeData(data []byte) {
	// One byte beyond the mark of the end shows that the data go on.
	if room := len(streamEnd) + 1 - len(a.start); room > 0 {
		a.start = append(a.start, data[:min(room, len(data))]...)
	}
	a.scan.write(data)
}

// endBody reads the usage of a body that is no stream.
func (a *Answer) endBody() {
	found := a.scan.found
	// A usage inside of another object is not the one of the body.
	if found.usage == nil || found.usageParent != "" {
		return
	}

	if a.format == Messages {
		a.mergeMessages(found.usage)
		a.complete = a.anthropic.known()
		return
	}
	a.complete = a.merge(found.usage)
}

// endCut reads the event that the end of a stream left without its empty line. A
// part of an event counts as text only.
func (a *Answer) endCut() {
	if a.scan.ended() {
		a.endEvent()
		return
	}
	a.text += a.scan.found.text
	a.scan.reset()
}

// merge reads a usage of OpenAI's formats, and reports whether it is whole.
// Numbers that are missing leave the values as they are.
func (a *Answer) merge(usage []byte) (whole bool) {
	w := parseUsage(usage)
	input, output, cached, written := w.openAI()
	if input.known {
		a.input = true
		// Parts of the prompt cannot exceed it, whatever a server reports.
		a.usage.Input, a.usage.Cached = input.n, min(cached.n, input.n)
		a.usage.Written = min(written.n, input.n-a.usage.Cached)
	}

	if output.known {
		a.usage.Output, a.unnamed = output.n, 0
	}
	if input.known && output.known && a.format != Embeddings {
		a.unnamed = w.addHidden(&a.usage, cached.n, written.n)
	}
	// Embeddings have no answer in tokens.
	return input.known && (output.known || a.format == Embeddings)
}

// mergeMessages reads a usage of Anthropic's format.
func (a *Answer) mergeMessages(usage []byte) {
	a.anthropic.merge(parseUsage(usage))
	a.usage, a.input = a.anthropic.usage(), a.anthropic.input.known
}

// endEvent reads the usage of an event.
func (a *Answer) endEvent() {
	found := a.scan.found
	a.text += found.text
	a.grown = found.text > 0

	switch a.format {
	case Messages:
		a.endMessagesEvent(found)
	case Responses:
		if found.usage != nil && found.usageParent == "response" && !slices.Contains(unfinished, found.kind) {
			a.complete = a.merge(found.usage)
		}
	default:
		a.endChunk(found)
	}

	a.scan.reset()
	a.start = a.start[:0]
}

// endMessagesEvent reads an event of Anthropic's. Usage is cumulative: every
// report replaces the one before.
func (a *Answer) endMessagesEvent(found found) {
	if found.usage != nil && found.usageParent != "response" {
		a.mergeMessages(found.usage)
		// The first usage, in message_start, counts an answer that has hardly
		// begun. Only a later one, which the event itself holds, is a report.
		a.reported = a.anthropic.known() && (a.reported || found.usageParent == "")
	}
	if found.kind == "message_stop" {
		a.complete = a.reported
	}
}

// endChunk reads a chunk of OpenAI's chat completions. The usage comes with the
// last chunk, which has no choices. Some servers repeat it in every chunk.
func (a *Answer) endChunk(found found) {
	if found.usage != nil && found.usageParent == "" {
		if a.merge(found.usage) {
			a.reported = true
			// A usage beside choices is one that the server repeats. It is
			// final when the stream ends.
			a.complete = a.complete || found.isUsageChunk()
		}
	}

	if string(a.start) == streamEnd {
		a.complete = a.reported
	}
}

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
