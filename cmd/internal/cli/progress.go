package cli

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// Timing of progress lines.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// progress shows a line on stderr, if that is a terminal, until stop is called.
// Stop clears the line and may be called again.
func (c *console) progress(line func() string) (stop func()) {
	if !c.errTerminal || !tty.CanRedraw() {
		return func() {}
	}

	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// A command that ends within half a second shows no progress.
		next := time.After(progressAfter)
		for shown := ""; ; {
			select {
			case <-end:
				if shown != "" {
					fmt.Fprint(c.err, "\r"+tty.ClearLine)
				}
				return
			case <-next:
				shown = tty.Clip(line(), c.errWidth-1)
				fmt.Fprint(c.err, "\r"+shown+tty.ClearLine)
				next = time.After(progressEvery)
			}
		}
	})

	// Stop returns after the line is cleared, so that no message mixes with it.
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

// watch shows the number of rows read so far as progress.
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
