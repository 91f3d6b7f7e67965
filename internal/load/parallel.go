package load

import "sync"

// Each calls a function for the numbers below n, for some at a time. It returns the first error,
// after which it starts no more.
func Each(n, atOnce int, do func(i int) error) error {
	var mu sync.Mutex
	var first error
	next := 0
	take := func(err error) (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		next++
		return next - 1, next <= n && first == nil
	}
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i, more := take(nil); more; i, more = take(do(i)) {
			}
		})
	}
	wg.Wait()
	return first
}
