package localserver

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

func TestSharedServerThatFailsToStop(t *testing.T) {
	s := Share(func() (*Server, error) { return launch("sh", "-c", "echo http://nowhere; cat >/dev/null; exit 7") })
	s.URL(t)
	if code := s.Stop(0); code != 1 {
		t.Errorf("code %d", code)
	}
}

// What is missing here must not be missing in CI.
func TestSharedServerThatIsMissing(t *testing.T) {
	s := Share(func() (*Server, error) { return nil, ErrMissing })
	t.Setenv("CI", "")
	var asked *testing.T
	t.Run("here", func(t *testing.T) {
		asked = t
		s.URL(t)
	})
	if !asked.Skipped() || asked.Failed() {
		t.Error("it was not skipped")
	}
}
