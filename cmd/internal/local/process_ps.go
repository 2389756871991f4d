//go:build unix && !linux

package local

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// startTime returns the start time of a process. A zombie has ended.
func startTime(pid int) (string, error) {
	out, err := exec.CommandContext(context.Background(), "ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, start, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !ok || strings.HasPrefix(state, "Z") {
		return "", errors.Join(errors.New("the process has ended"), err)
	}
	return strings.Join(strings.Fields(start), " "), nil
}
