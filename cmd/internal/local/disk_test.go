package local

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestDiagnoseFindsAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		log   string
		write error
		want  error
	}{
		"room":        {log: "started"},
		"read-only":   {log: "started", write: syscall.EROFS},
		"no room":     {log: "started", write: syscall.ENOSPC, want: ErrDiskFull},
		"system says": {log: "java.io.IOException: No space left on device", want: ErrDiskFull},
		"SQLite says": {log: "SQLiteException: [13] database or disk is full", want: ErrDiskFull},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			e := &Engine{
				Kind: DynamoDB, Port: 8001, Process: &Process{1, "then"},
				Log: filepath.Join(t.TempDir(), "engine.log"),
			}
			if err := errors.Join(f.Save(e), os.WriteFile(e.Log, []byte(c.log+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if c.write != nil {
				f.write = func(string, []byte) error { return c.write }
			}
			if got := f.Diagnose(t.Context(), e); !errors.Is(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if left, err := filepath.Glob(f.at(e.Port, "room*")); len(left) != 0 || err != nil {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}
