//go:build race

package simulation_test

// raced reports that the race detector is on. With it, Go's scheduler puts goroutines that are
// ready at the same instant into a random order.
const raced = true
