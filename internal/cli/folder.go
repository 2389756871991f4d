package cli

import (
	"os"
	"path/filepath"
	"runtime"
)

// dataFolder is where this user's programs keep what they know: under
// XDG_DATA_HOME if that is set, else where the system wants it.
func dataFolder() (string, error) {
	const name = "zae-limiter"
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, name), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // which keep data and settings in one place
		base, err := os.UserConfigDir()
		return filepath.Join(base, name), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", name), err
}
