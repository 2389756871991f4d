package tty

import (
	"os"
	"strconv"

	"golang.org/x/term"
)

// usualColumns is the width of a terminal of unknown width.
const usualColumns = 80

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// IsFile reports whether a stream is a file on disk.
func IsFile(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// CanRedraw reports whether a terminal can move its cursor.
func CanRedraw() bool { return os.Getenv("TERM") != "dumb" }

// Columns returns the width of a stream: that of its terminal, else COLUMNS, else
// 80.
func Columns(stream any) int {
	if f, ok := stream.(*os.File); ok && f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return usualColumns
}
