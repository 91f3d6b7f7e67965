package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Gone is the fate of a key of which nobody knows how it went.
const Gone script.Fate = 255

// A keyWatcher listens to what happens to one key.
//
// Messages can be lost: while the connection is broken, when nobody takes them
// in time, when the server fails over or is flushed. So the keyWatcher also looks,
// whenever the subscription was restored, and every now and then: a key that was
// there and is not, without a message, is gone. Since the message may just be on
// its way, the channels are then confirmed once more: what comes before that was
// sent before the look.
type keyWatcher struct {
	e      *Engine
	key    string
	events *script.Events
	exists func(context.Context) (bool, error)
	heard  func(script.Fate) bool
	tap    *wait.Tap

	present bool            // the key was there when last seen
	stale   bool            // that must be seen again
	strange bool            // it may be another server, or a new life of the same one
	fence   bool            // the key is gone, unless a message comes before the channels are confirmed
	owed    map[string]bool // channels whose confirmation was asked for and has not come
	again   bool            // that was before the fence was put up: once more
}

// Listen calls heard with each fate of a key, until that returns false or ctx
// is done. It looks with exists.
func (e *Engine) Listen(ctx context.Context, key string, exists func(context.Context) (bool, error), heard func(script.Fate) bool) error {
	v := &keyWatcher{e: e, key: key, exists: exists, heard: heard, owed: make(map[string]bool)}
	err := v.begin(ctx)
	if err == nil {
		defer v.tap.Leave()
		err = v.run(ctx)
	}
	if ctx.Err() != nil || errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough says that nobody wants to hear more.
var errEnough = errors.New("enough")

// begin finds out how to hear of the key, and whether it is there.
func (v *keyWatcher) begin(ctx context.Context) error {
	e := v.e
	if err := v.enquire(ctx); err != nil {
		return err
	}
	err := e.Ask(ctx, true, func(ctx context.Context) (err error) {
		v.present, err = v.exists(ctx)
		return err
	})
	if err != nil {
		return err
	}
	v.tap, v.stale = e.hub.Tap(v.events.Concerns, v.events.Channels()...), true
	return nil
}

// enquire asks the server whether, and where, it publishes what happens.
func (v *keyWatcher) enquire(ctx context.Context) error {
	e := v.e
	var facts driver.Facts
	err := e.Ask(ctx, true, func(ctx context.Context) (err error) {
		if facts, err = driver.FactsAt(ctx, e.d, v.key); err == nil && driver.ClassOf(facts.SettingsErr) != driver.Fatal {
			err = facts.SettingsErr // not an answer, or none
		}
		return err
	})
	if err != nil {
		return err
	}
	if err = facts.SettingsErr; err != nil {
		next := "the server must have the command CONFIG GET, and notify-keyspace-events set to Kgx"
		if driver.CodeOf(err) == "NOPERM" {
			next = "listen as a user that may run CONFIG GET (ACL SETUSER <user> +config|get, which also shows passwords: see docs/operations.md), and set notify-keyspace-events to Kgx"
		}
		return fmt.Errorf("%w: the server does not say whether it publishes them (%w): %s", ErrNoEvents, err, next)
	}
	events, err := script.NewEvents(facts, v.key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoEvents, err)
	}
	if v.events == nil {
		v.events = events
	}
	return nil
}

// run waits for what happens.
func (v *keyWatcher) run(ctx context.Context) error {
	var timer *time.Timer
	for {
		if v.stale && !v.fence {
			if err := v.look(ctx); err != nil {
				return err
			}
		}
		pause := v.e.o.Poll
		if v.stale || !v.tap.Live() {
			pause = v.e.o.PollBlind
		}
		woken, err := v.e.sleep(ctx, v.tap.Wake(), &timer, pause)
		if err != nil {
			return err
		}
		if !woken {
			v.stale = true
		}
		if err := v.take(ctx); err != nil {
			return err
		}
	}
}

// take hears what has come.
func (v *keyWatcher) take(ctx context.Context) error {
	notices, missed := v.tap.Take()
	for _, n := range notices {
		switch n.Sort {
		case wait.Lost:
			v.stale, v.strange = true, true // and stays so until the channels are live again
		case wait.Confirmed:
			delete(v.owed, n.Channel)
			switch {
			case !v.fence || len(v.owed) > 0:
			case v.again:
				v.confirm()
			default:
				if err := v.tell(ctx, Gone); err != nil {
					return err
				}
			}
		case wait.Message:
			fate := v.events.Fate(n.Channel, n.Payload)
			if fate == script.Alive {
				v.present = true
			} else if err := v.tell(ctx, fate); err != nil {
				return err
			}
		}
	}
	if missed {
		v.stale = true
		clear(v.owed)
		if v.fence { // the confirmation may be what was missed
			return v.tell(ctx, Gone)
		}
		v.present = true // or there would have been nothing to miss
	}
	return nil
}

// tell reports that the key has ended.
func (v *keyWatcher) tell(ctx context.Context, f script.Fate) error {
	v.present, v.fence, v.again = false, false, false
	if err := ctx.Err(); err != nil {
		return err
	}
	if !v.heard(f) {
		return errEnough
	}
	return nil
}

// look sees whether the key is there. A server that cannot say so now is asked
// again.
func (v *keyWatcher) look(ctx context.Context) error {
	live := v.tap.Live()
	var exists bool
	err := v.e.Ask(ctx, true, func(ctx context.Context) (err error) {
		exists, err = v.exists(ctx)
		return err
	})
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrClosed):
		return err
	case err != nil || !live: // what happens until it is live must be looked for
		v.present = v.present || exists
		return nil
	}
	v.stale = false
	if v.strange {
		// It may have forgotten that it was told to publish events.
		if err := v.enquire(ctx); err == nil {
			v.strange = false
		} else if errors.Is(err, ErrNoEvents) || errors.Is(err, ErrClosed) {
			return err
		} else {
			v.stale = true
		}
	}
	if exists {
		v.present = true
	} else if v.present {
		v.fence = true
		if v.again = len(v.owed) > 0; !v.again {
			v.confirm()
		}
	}
	return nil
}

// confirm has the channels confirmed once more.
func (v *keyWatcher) confirm() {
	v.again = false
	for _, c := range v.events.Channels() {
		v.owed[c] = true
	}
	v.tap.Confirm()
}
