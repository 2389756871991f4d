package locust

import "context"

// leaveTest reports the test that this worker leaves before its end.
func (w *worker) leaveTest() {
	if w.unended != "" && w.Left != nil {
		w.Left(w.unended)
	}
	w.unended = ""
}

// removeTest removes the namespace of the test whose master is gone. Other workers
// of the test have lost it, too, and do the same.
func (w *worker) removeTest(ctx context.Context) {
	if w.unended == "" {
		return
	}
	if err := tearDown(ctx, w.swarm); err != nil {
		w.log("the namespace of test %s was not removed: %v", w.unended, err)
		return
	}

	w.log("removed the namespace of test %s, since its master is gone", w.unended)
	w.unended = ""
}
