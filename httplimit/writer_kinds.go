package httplimit

import (
	"io"
	"net/http"
)

// Optional interfaces of a response writer.
const (
	canFlush = 1 << iota
	canHijack
	canReadFrom
	canPush
)

// abilities returns the optional interfaces that w implements.
func abilities(w http.ResponseWriter) int {
	all := 0
	if _, ok := w.(http.Flusher); ok {
		all |= canFlush
	}
	if _, ok := w.(http.Hijacker); ok {
		all |= canHijack
	}
	if _, ok := w.(io.ReaderFrom); ok {
		all |= canReadFrom
	}
	if _, ok := w.(http.Pusher); ok {
		all |= canPush
	}
	return all
}

// asBelow returns w with exactly the optional interfaces of the writer below it.
// A handler that asks for one must get the same answer as without the middleware.
func (w *writer) asBelow() http.ResponseWriter {
	f, h, r, p := flusher{w}, hijacker{w}, readerFrom{w}, pusher{w}
	switch abilities(w.ResponseWriter) {
	case canFlush:
		return struct {
			*writer
			flusher
		}{w, f}
	case canHijack:
		return struct {
			*writer
			hijacker
		}{w, h}
	case canReadFrom:
		return struct {
			*writer
			readerFrom
		}{w, r}
	case canPush:
		return struct {
			*writer
			pusher
		}{w, p}
	case canFlush | canHijack:
		return struct {
			*writer
			flusher
			hijacker
		}{w, f, h}
	case canFlush | canReadFrom:
		return struct {
			*writer
			flusher
			readerFrom
		}{w, f, r}
	case canFlush | canPush:
		return struct {
			*writer
			flusher
			pusher
		}{w, f, p}
	case canHijack | canReadFrom:
		return struct {
			*writer
			hijacker
			readerFrom
		}{w, h, r}
	case canHijack | canPush:
		return struct {
			*writer
			hijacker
			pusher
		}{w, h, p}
	case canReadFrom | canPush:
		return struct {
			*writer
			readerFrom
			pusher
		}{w, r, p}
	}
	return w.asBelowMany(f, h, r, p)
}

// asBelowMany continues asBelow for none, three and four interfaces.
func (w *writer) asBelowMany(f flusher, h hijacker, r readerFrom, p pusher) http.ResponseWriter {
	switch abilities(w.ResponseWriter) {
	case canFlush | canHijack | canReadFrom:
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
		}{w, f, h, r}
	case canFlush | canHijack | canPush:
		return struct {
			*writer
			flusher
			hijacker
			pusher
		}{w, f, h, p}
	case canFlush | canReadFrom | canPush:
		return struct {
			*writer
			flusher
			readerFrom
			pusher
		}{w, f, r, p}
	case canHijack | canReadFrom | canPush:
		return struct {
			*writer
			hijacker
			readerFrom
			pusher
		}{w, h, r, p}
	case canFlush | canHijack | canReadFrom | canPush:
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
			pusher
		}{w, f, h, r, p}
	}
	return w
}
