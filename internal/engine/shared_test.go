package engine

import "testing"

func TestSharedServerIsStartedOnce(t *testing.T) {
	starts := 0
	s := Share(func() (*Server, error) {
		starts++
		return launch("sh", "-c", "echo http://nowhere; cat >/dev/null")
	})
	if code := s.Stop(5); code != 5 {
		t.Errorf("code %d though nothing was started", code)
	}
	for range 2 {
		if url := s.URL(t); url != "http://nowhere" {
			t.Error(url)
		}
	}
	if code := s.Stop(0); code != 0 || starts != 1 {
		t.Errorf("code %d, %d starts", code, starts)
	}
}

func TestSharedServerFailsToStop(t *testing.T) {
	s := Share(func() (*Server, error) { return launch("sh", "-c", "echo http://nowhere; cat >/dev/null; exit 7") })
	s.URL(t)
	if code := s.Stop(0); code != 1 {
		t.Errorf("code %d", code)
	}
}

// A missing server skips the test outside of CI.
func TestMissingSharedServer(t *testing.T) {
	s := Share(func() (*Server, error) { return nil, ErrMissing })
	t.Setenv("CI", "")
	var inner *testing.T
	t.Run("outside of CI", func(t *testing.T) {
		inner = t
		s.URL(t)
	})
	if !inner.Skipped() || inner.Failed() {
		t.Error("it was not skipped")
	}
}
