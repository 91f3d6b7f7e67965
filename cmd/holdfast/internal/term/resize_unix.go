//go:build unix

package term

import (
	"os"
	"os/signal"
	"syscall"
)

// resized returns a channel that receives a value when the size of the terminal
// changes.
func resized() (changes <-chan struct{}, stop func()) {
	signals, tell := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for range signals {
			select {
			case tell <- struct{}{}:
			default: // a value is already pending
			}
		}
	}()
	return tell, func() { signal.Stop(signals); close(signals) }
}
