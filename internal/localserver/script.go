package localserver

import (
	"fmt"
	"os"
	"path/filepath"
)

// findScript is the path of a script in the module that the working directory
// is in. Whether it is there shows when it is started.
func findScript(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return filepath.Join(at, "scripts", name), nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%w: the script %s is found from a folder of this module, and %s is in no module", ErrMissing, name, dir)
		}
	}
}
