package runner

import (
	"sync"
	"time"
)

// A judge or a hook is let go when its time is over, and may need some more to
// end: a command that does not end when it is asked to is killed after a grace,
// with all that it has started. A daemon that stops waits for that, or they would
// outlive it.

// await waits until strays have ended, at most so long.
func await(strays *sync.WaitGroup, most time.Duration) {
	ended := make(chan struct{})
	go func() {
		strays.Wait()
		close(ended)
	}()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}
