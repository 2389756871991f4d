package cli

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the most that a file of settings, rules or keys may hold, so that
// /dev/zero is an error.
const maxFile = 4 << 20

// readFile returns the content of a file, or of in if the path is "-". If in is nil,
// "-" is a file of that name.
func readFile(path string, in io.Reader) (content []byte, err error) {
	if path == "-" && in != nil {
		return readAtMost(path, in)
	}

	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	// Nothing was written, so an error of Close means nothing.
	defer func() { _ = file.Close() }()
	return readAtMost(path, file)
}

func readAtMost(path string, from io.Reader) ([]byte, error) {
	// One byte more than the maximum shows that the file goes on.
	content, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(content) > maxFile {
		return nil, fmt.Errorf("%s: must hold at most %d bytes", path, maxFile)
	}
	return content, err
}
