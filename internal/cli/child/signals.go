package child

import (
	"os"
	"os/signal"
	"sync"
)

// signals are those that reach this process while it has a child. Between
// catchSignals and release none of them ends it.
type signals struct {
	passed  chan os.Signal
	dropped chan os.Signal // nobody reads them
	passing sync.WaitGroup
}

func catchSignals() *signals {
	s := &signals{passed: make(chan os.Signal, 64), dropped: make(chan os.Signal, 1)}
	for _, sig := range toPassOn {
		// To catch a signal that nohup, say, made us ignore would end that for the
		// child as well.
		if !signal.Ignored(sig) {
			signal.Notify(s.passed, sig)
		}
	}
	signal.Notify(s.dropped, toDrop...)
	return s
}

// passTo sends the signals to a process that has just been started, until
// release.
func (s *signals) passTo(p *os.Process) {
	for range len(s.passed) {
		// The terminal may have sent them before there was a child.
		_ = p.Signal(<-s.passed)
	}
	s.passing.Go(func() {
		for sig := range s.passed {
			if !sentByTerminal(sig) {
				_ = p.Signal(sig) // a process that has ended needs none
			}
		}
	})
}

func (s *signals) release() {
	signal.Stop(s.passed)
	signal.Stop(s.dropped)
	close(s.passed)
	s.passing.Wait()
}
