package llm

// eventSplitter splits a stream of server-sent events that arrives in parts. It
// passes on the data of each event and keeps none of it. Lines may end in CR, LF
// or CRLF, and parts may end anywhere.
type eventSplitter struct {
	bom     int      // bytes of a byte order mark seen at the start; -1 after the start
	line    linePart // where in a line the next byte is
	name    [4]byte  // the start of the line, while it may be "data"
	nameLen int      // bytes of the line, up to 5
	data    bool     // the event has a data line, so another one begins with a line feed
	cr      bool     // the last byte was a CR, so an LF belongs to the same end of line
}

type linePart int

const (
	inName  linePart = iota // before the colon
	inSpace                 // after "data:", where one space is skipped
	inData
	inOther // a comment or another field
)

const byteOrderMark = "\xef\xbb\xbf"

// next reads p up to the end of the current event and passes its data to sink. It
// returns the number of bytes read, and reports whether the event has ended. The
// LF of a CRLF that ends an event may come with the next call.
func (e *eventSplitter) next(p []byte, sink func([]byte)) (n int, ended bool) {
	for n < len(p) {
		c := p[n]
		if e.skipMark(c) {
			n++
			continue
		}
		switch {
		// The CR before it has ended the line already.
		case c == '\n' && e.cr:
			e.cr = false
			n++
		case c == '\n' || c == '\r':
			n++
			e.cr = c == '\r'
			if e.endLine() {
				return n, true
			}
		case e.line == inData:
			e.cr = false
			end := n + lineLength(p[n:])
			sink(p[n:end])
			n = end
		case e.line == inOther:
			e.cr = false
			n += lineLength(p[n:])
		default:
			e.cr = false
			e.begin(c, sink)
			n++
		}
	}
	return n, false
}

// lineLength returns the number of bytes before the end of a line.
func lineLength(p []byte) int {
	for i, c := range p {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return len(p)
}

// skipMark reports whether c is part of a byte order mark at the start.
func (e *eventSplitter) skipMark(c byte) bool {
	if e.bom >= 0 && e.bom < len(byteOrderMark) && c == byteOrderMark[e.bom] {
		e.bom++
		return true
	}
	e.bom = -1
	return false
}

// begin reads a byte of a field's name, or the one after its colon.
func (e *eventSplitter) begin(c byte, sink func([]byte)) {
	if e.line == inSpace {
		e.line = inData
		if c != ' ' {
			sink([]byte{c})
		}
		return
	}

	switch {
	case c == ':' && e.nameLen == 4 && string(e.name[:]) == "data":
		// The data lines of an event are joined with line feeds.
		e.line = inSpace
		if e.data {
			sink([]byte{'\n'})
		}
		e.data = true
	case c == ':' || e.nameLen == len(e.name):
		e.line = inOther
	default:
		e.name[e.nameLen] = c
	}

	e.nameLen = min(e.nameLen+1, len(e.name)+1)
}

// endLine ends a line and reports whether it was empty, which ends the event.
func (e *eventSplitter) endLine() bool {
	empty := e.nameLen == 0
	e.line, e.nameLen = inName, 0
	if empty {
		e.data = false
	}
	return empty
}

// endsWith reports whether the first byte of p belongs to the end of the event
// that has just ended.
func (e *eventSplitter) endsWith(p []byte) bool { return e.cr && len(p) > 0 && p[0] == '\n' }
