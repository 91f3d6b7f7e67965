package engine

import "time"

// The times and limits of the engine that no option sets.
const (
	answerTime     = time.Second            // for which a request may go on after Request.Wait; a server without an answer then is unavailable, rather than the lock held
	askPatience    = time.Second            // for which a request is repeated that is not for a lock
	groupTime      = 250 * time.Millisecond // for which a group asks for all its locks before it is divided
	interruptAfter = 50 * time.Millisecond  // for which a release waits for a claim before it interrupts it
	localWait      = time.Second            // for which a call waits for its own client before the log says so, and between two checks of the hold ahead of it
	longWaitTime   = time.Second            // for which a call waits before its caller is told
	missingEvery   = 10 * time.Second       // between two messages of a call that the object does not exist
	refusalLife    = 5 * time.Millisecond   // for which a refusal is repeated without a request, so that changes by other clients are not seen
	releaseTime    = time.Second            // for which a release waits for an answer before it continues in the background
	stragglerTime  = 10 * time.Millisecond  // at least, to wait for more servers than a quorum: a lease there survives the loss of one
	withdrawTime   = 250 * time.Millisecond // for which a call that has failed gives back what it may have before it continues in the background

	// A renewal that came this close to a loss is reported as late, with this time between reports.
	lateOverdue = 0.5
	latePause   = time.Second

	// A user that may publish can wake waiters. After freeWakes messages that have brought nothing,
	// a waiter pauses after each answer.
	freeWakes = 50
	wakePause = 10 * time.Millisecond

	maxCreated     = 2    // how often a call creates a missing object without a pause: another client may delete it
	maxFirsts      = 100  // saved groups: one per combination of clients and kinds
	maxFloors      = 4096 // of each of the two maps of tokens
	maxLocalWarned = 1024 // locks for which a wait for the own client is logged
	minGates       = 1024 // gates that are kept at least, since the next call may need them
	plainTries     = 10   // how often a claim is sent if the lock of another library is gone when it is looked at

	never time.Duration = 1<<63 - 1 // longer than any wait
)
