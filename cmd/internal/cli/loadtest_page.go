package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// page is a file for a report. It is created before the test, so that a test
// never ends without a place for its report, and replaces an older file only
// when it is complete.
type page struct {
	file *os.File
	path string
}

// createPage creates the file of a report. It returns nil if path is "".
func createPage(path string) (*page, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no page is wanted
	}

	given := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		// The report replaces the file to which a link leads, and the link
		// stays.
		path = target
	}

	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, kit.Usagef("invalid --html %q: is a folder; give the name of a file in it, such as %s", kit.Clip(given),
			filepath.Join(given, "report.html"))
	} else if err == nil && !info.Mode().IsRegular() {
		return nil, kit.Usagef(
			"invalid --html %q: is not a file that could be replaced; give the name of a file, such as report.html",
			kit.Clip(given),
		)
	}
	// The temporary file is in the same folder, because a rename cannot cross
	// file systems.
	file, err := os.CreateTemp(filepath.Dir(path), ".report-*.html")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kit.Usagef("invalid --html %q: there is no folder %s", kit.Clip(path), filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("--html %s: %w", path, err)
	}

	return &page{file, path}, nil
}

// write writes the report and puts the file in its place.
func (p *page) write(r loadtest.Report) error {
	err := r.WriteHTML(p.file)
	// CreateTemp makes a file that only the user can read, but a report is for
	// others, too.
	if err = errors.Join(err, p.file.Chmod(0o644), p.file.Close()); err != nil {
		return fmt.Errorf("--html %s: %w", p.path, err)
	}

	return os.Rename(p.file.Name(), p.path)
}

// discard removes the file if the report was not written.
func (p *page) discard() {
	if p != nil {
		_ = p.file.Close()

		// After write there is no such file.
		_ = os.Remove(p.file.Name())
	}
}
