package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// startTime returns the start time of a process: the boot it belongs to, and the
// clock ticks since then. A zombie has ended, unless it only waits for its other
// threads, which may still hold files and ports.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}

	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}

	// The second field is the name in parentheses, which may contain any byte.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))

	// The manual of /proc counts these fields as 3, 20 and 22.
	const state, threads, start = 0, 17, 19

	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}

	if fields[state] == "X" || fields[state] == "Z" && (fields[threads] == "0" || fields[threads] == "1") {
		return "", errors.New("the process has ended")
	}

	return strings.TrimSpace(string(boot)) + " " + fields[start], nil
}
