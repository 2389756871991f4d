//go:build unix

package child

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// readLines calls line for each line of r, cut at MaxLine. An unfinished line
// counts only at the end of r: after any other error its rest is missing.
func readLines(r io.Reader, line func(string)) {
	in := bufio.NewReaderSize(r, MaxLine)
	for {
		piece, err := in.ReadSlice('\n')
		text := strings.TrimSuffix(string(piece), "\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err == nil || errors.Is(err, io.EOF) && text != "" {
			line(text)
		}
		if err != nil {
			return
		}
	}
}
