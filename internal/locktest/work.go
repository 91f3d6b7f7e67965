package locktest

import (
	"math/rand/v2"
	"time"
)

// Work takes as long as d. It stands for what a program does under a lock or between two calls.
func Work(d time.Duration) { time.Sleep(d) }

// Repeat calls do again and again while going reports true, each time after a pause of random
// length, from least up to most. Faults, and calls that come now and then, happen at such times.
func Repeat(least, most time.Duration, going func() bool, do func(i int)) {
	for i := 0; going(); i++ {
		time.Sleep(least + rand.N(most-least+1))
		do(i)
	}
}
