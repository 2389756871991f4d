package cli

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// Progress is shown once somebody may wonder, and not more often than eyes can
// follow.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// progress shows, to people only, a line on stderr until stop is called, which
// takes it away. Stop may be called again.
func (c *console) progress(line func() string) (stop func()) {
	if !c.watched || !tty.CanRedraw() {
		return func() {}
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		next := time.After(progressAfter)
		for shown := ""; ; {
			select {
			case <-end:
				if shown != "" {
					fmt.Fprint(c.err, "\r"+tty.ClearLine)
				}
				return
			case <-next:
				shown = tty.Clip(line(), c.talkWidth-1)
				fmt.Fprint(c.err, "\r"+shown+tty.ClearLine)
				next = time.After(progressEvery)
			}
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

// watch counts rows as they come.
func watch[T any](c *console, rows iter.Seq2[T, error]) (counted iter.Seq2[T, error], stop func()) {
	var n atomic.Int64
	stop = c.progress(func() string { return "reading: " + tty.Number(n.Load()) + " rows" })
	return func(yield func(T, error) bool) {
		for v, err := range rows {
			n.Add(1)
			if !yield(v, err) {
				return
			}
		}
	}, stop
}
