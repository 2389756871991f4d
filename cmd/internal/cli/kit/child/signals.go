package child

import (
	"os"
	"os/signal"
	"sync"
)

// signals catches the signals of this process while it has a child. Between
// catchSignals and release none of them ends the process.
type signals struct {
	passed  chan os.Signal
	dropped chan os.Signal // never read
	passing sync.WaitGroup
}

func catchSignals() *signals {
	s := &signals{passed: make(chan os.Signal, 64), dropped: make(chan os.Signal, 1)}
	for _, sig := range toPassOn {
		// Catching a signal that is ignored, by nohup for example, would make the
		// child receive it.
		if !signal.Ignored(sig) {
			signal.Notify(s.passed, sig)
		}
	}

	signal.Notify(s.dropped, toDrop...)
	return s
}

// passTo forwards the signals to a process that was just started, until release.
func (s *signals) passTo(p *os.Process) {
	for range len(s.passed) {
		// The terminal may have sent them before there was a child.
		_ = p.Signal(<-s.passed)
	}

	s.passing.Go(func() {
		for sig := range s.passed {
			if !sentByTerminal(sig) {
				// Signal fails if the process has ended.
				_ = p.Signal(sig)
			}
		}
	})
}

func (s *signals) release() {
	signal.Stop(s.passed)
	signal.Stop(s.dropped)

	// Once Stop has returned, no signal is sent to the channel.
	close(s.passed)
	s.passing.Wait()
}
