package script_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A semaphore that was deleted is not made anew by a request that is undone.
func TestUndoDoesNotCreate(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run("SET N 5")
	l.call(d, takePermits(2, "a:1:7"))
	l.run("DEL N")
	l.call(d, undoPermits(2, "a:1:7"))
	l.run("DEL mark:a:1")
	l.has()
}
