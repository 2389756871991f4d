package llm

import "bytes"

// StreamFilter removes the chunk with the usage from a stream of chat
// completions, for a client that did not ask for it. All other bytes pass
// unchanged. It holds back an event only until its last byte arrives, since
// clients cannot use a part of an event. The zero value is ready to use.
type StreamFilter struct {
	events  eventSplitter
	scan    scanner
	held    []byte // the event that has not ended
	pass    bool   // the event is passed on as it arrives
	dropped bool   // the last event was removed
}

const (
	maxHeld    = 1 << 16 // bytes of an event with choices that are held back
	maxUnknown = 1 << 20 // bytes of an event that may yet be the usage
)

// Filter returns the bytes to pass on after p has arrived. The result is valid
// until the next call.
func (f *StreamFilter) Filter(p []byte) []byte {
	var out bytes.Buffer

	// The CR that ended the last event came with the part before. Its LF is
	// passed on or dropped as that event was.
	if f.events.endsWith(p) && len(f.held) == 0 && !f.pass {
		_, _ = f.events.next(p[:1], f.scan.write)
		if !f.dropped {
			out.WriteByte(p[0])
		}
		p = p[1:]
	}

	for len(p) > 0 {
		n, ended := f.events.next(p, f.scan.write)
		if f.pass {
			out.Write(p[:n])
		} else {
			f.held = append(f.held, p[:n]...)
		}
		p = p[n:]
		switch {
		case ended:
			p = f.endEvent(p, &out)
		// From here on the event passes as it arrives. With choices it is not
		// the usage, and without any it is longer than a usage can be.
		case len(f.held) > maxUnknown || len(f.held) > maxHeld && f.scan.found.choices:
			f.pass = true
			f.release(&out)
		}
	}
	return out.Bytes()
}

// Flush returns the bytes of an event that the end of the stream cut off. It
// removes the usage if only its empty line is missing.
func (f *StreamFilter) Flush() []byte {
	var out bytes.Buffer
	// Some servers end the stream without the last empty line.
	if f.scan.ended() && f.scan.found.isUsageChunk() {
		f.held = f.held[:0]
	}

	f.release(&out)
	return out.Bytes()
}

func (f *StreamFilter) release(out *bytes.Buffer) {
	out.Write(f.held)
	f.held = f.held[:0]
}

// endEvent passes or removes the event, with the LF that may end it.
func (f *StreamFilter) endEvent(p []byte, out *bytes.Buffer) []byte {
	f.dropped = !f.pass && f.scan.found.isUsageChunk()
	if f.dropped {
		f.held = f.held[:0]
	} else {
		f.release(out)
	}

	f.pass = false
	f.scan.reset()

	// The LF of a CRLF is not part of the next event.
	if f.events.endsWith(p) {
		_, _ = f.events.next(p[:1], f.scan.write)
		if !f.dropped {
			out.WriteByte('\n')
		}
		p = p[1:]
	}
	return p
}
