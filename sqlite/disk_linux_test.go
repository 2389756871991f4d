package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// smallDisk returns a folder on a disk of 4 MB.
func smallDisk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no permission to mount a disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func acquireMany(t *testing.T, lim *limiter.RateLimiter, n int) {
	t.Helper()
	for i := range n {
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
}

// TestOneBucketOnASmallDisk checks that a bucket can be written forever on a disk
// that is smaller than the usual log.
func TestOneBucketOnASmallDisk(t *testing.T) {
	for name, pages := range map[string]int64{"known to be small": 0, "thought to be large": maxLogPages} {
		t.Run(name, func(t *testing.T) {
			folder := smallDisk(t)
			r := openFile(t, filepath.Join(folder, "limits.db"), nil)
			lim := manyDaily(t, r)
			if pages > 0 {
				setLogPages(t, r, pages)
			}
			acquireMany(t, lim, 3000)
			if size := logSize(t, r); size > 2<<20 {
				t.Errorf("the log has %d bytes", size)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSmallDiskThatWasFull checks that calls succeed once there is space again.
func TestSmallDiskThatWasFull(t *testing.T) {
	folder := smallDisk(t)
	r := openFile(t, filepath.Join(folder, "limits.db"), nil)
	lim := manyDaily(t, r)
	acquireMany(t, lim, 100)
	filler := filepath.Join(folder, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err == nil {
		t.Fatal("the disk is larger than 4 MB")
	}
	failed := 0
	for range 2000 {
		_, err := lim.Acquire(t.Context(), oneOfAlice)
		if err != nil && !isOutage(err) {
			t.Fatal(err)
		}
		if err != nil {
			failed++
		}
	}
	t.Logf("%d of 2000 failed while the disk was full", failed)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	acquireMany(t, lim, 3000)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
