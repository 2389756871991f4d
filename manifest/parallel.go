package manifest

import (
	"context"
	"sync"
)

// How many calls of a store are under way. Writes of many entities change the
// same register on DynamoDB, where more of them would only get in each other's
// way.
const readers, writers = 16, 4

// inParallel calls do for 0 to n-1, by some workers, in that order as far as
// they begin. It ends early, without error, when ctx does.
func inParallel(ctx context.Context, workers, n int, do func(i int)) {
	work := make(chan int)
	var running sync.WaitGroup
	for range min(workers, n) {
		running.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		work <- i
	}
	close(work)
	running.Wait()
}
