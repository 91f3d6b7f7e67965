// Package listen listens to what happens to keys.
package listen

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Gone is the fate of a key that has ended for an unknown reason.
const Gone script.Fate = 255

// A keyWatcher listens to what happens to one key.
//
// Messages can be lost: when the connection breaks, when too many of them are waiting, when the
// server fails over or is flushed. So the keyWatcher also checks whether the key exists, at every
// poll interval and when the subscription was restored. If it existed before and does not now, it
// is gone. The message about it may still be on its way, so the keyWatcher lets the server confirm
// the subscriptions: messages sent before the check arrive before the confirmation.
type keyWatcher struct {
	e      *engine.Engine
	d      driver.Driver
	key    string
	events *script.Events
	exists func(context.Context) (bool, error)
	handle func(script.Fate) bool
	tap    *wait.Tap

	present       bool            // the key existed when last seen
	stale         bool            // present may be wrong: check the key
	serverChanged bool            // the server may have been replaced or restarted
	confirming    bool            // the key is gone, unless a message arrives before the confirmations
	unconfirmed   map[string]bool // channels whose confirmation was requested and has not arrived
	confirmAgain  bool            // the confirmations under way were requested before the check
}

// Listen calls handle with each fate of a key on d, until it returns false or ctx is done.
func Listen(ctx context.Context, e *engine.Engine, d driver.Driver, key string, exists func(context.Context) (bool, error), handle func(script.Fate) bool) error {
	w := &keyWatcher{e: e, d: d, key: key, exists: exists, handle: handle, unconfirmed: make(map[string]bool)}
	err := w.run(ctx)
	if ctx.Err() != nil || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// errStopped is the error after handle has returned false.
var errStopped = errors.New("stopped")

// ask asks the server whether the key exists.
func (w *keyWatcher) ask(ctx context.Context, exists *bool) error {
	return w.e.Ask(ctx, true, func(ctx context.Context) (err error) {
		*exists, err = w.exists(ctx)
		return err
	})
}

// findEvents asks the server whether it publishes the events of the key, and on which channels.
func (w *keyWatcher) findEvents(ctx context.Context) error {
	var facts driver.Facts
	err := w.e.Ask(ctx, true, func(ctx context.Context) (err error) {
		if facts, err = driver.FactsAt(ctx, w.d, w.key); err == nil && driver.ClassOf(facts.SettingsErr) != driver.Fatal {
			err = facts.SettingsErr // nil, or a failure that may pass
		}
		return err
	})
	if err != nil {
		return err
	}
	if err = facts.SettingsErr; err != nil {
		next := "the server must have CONFIG GET, and notify-keyspace-events must be set to Kgx"
		if driver.CodeOf(err) == "NOPERM" {
			next = "listen as a user with permission for CONFIG GET (ACL SETUSER <user> +config|get; this also shows passwords: see docs/operations.md), and set notify-keyspace-events to Kgx"
		}
		return fmt.Errorf("%w: cannot find out whether the server publishes them (%w): %s", engine.ErrNoEvents, err, next)
	}
	events, err := script.NewEvents(facts, w.key)
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrNoEvents, err)
	}
	if w.events == nil {
		w.events = events
	}
	return nil
}

// run subscribes to the events, waits for messages and checks the key.
func (w *keyWatcher) run(ctx context.Context) error {
	if err := w.findEvents(ctx); err != nil {
		return err
	}
	if err := w.ask(ctx, &w.present); err != nil {
		return err
	}
	w.tap, w.stale = w.e.Tap(w.events.Concerns, w.events.Channels()...), true
	defer w.tap.Leave()
	for {
		if w.stale && !w.confirming {
			if err := w.check(ctx); err != nil {
				return err
			}
		}
		woken, err := w.e.Await(ctx, w.tap, !w.stale)
		if err != nil {
			return err
		}
		if !woken {
			w.stale = true
		}
		if err := w.handleNotices(ctx); err != nil {
			return err
		}
	}
}

// handleNotices handles the messages and confirmations that have arrived.
func (w *keyWatcher) handleNotices(ctx context.Context) error {
	notices, missed := w.tap.Take()
	for _, n := range notices {
		switch n.Sort {
		case wait.Lost:
			w.stale, w.serverChanged = true, true // until the channels are live again
		case wait.Confirmed:
			delete(w.unconfirmed, n.Channel)
			switch {
			case !w.confirming || len(w.unconfirmed) > 0:
			case w.confirmAgain:
				w.confirm()
			default:
				if err := w.report(ctx, Gone); err != nil {
					return err
				}
			}
		case wait.Message:
			fate := w.events.Fate(n.Channel, n.Payload)
			if fate == script.Alive {
				w.present = true
			} else if err := w.report(ctx, fate); err != nil {
				return err
			}
		}
	}
	if missed {
		w.stale = true
		clear(w.unconfirmed)
		if w.confirming { // the confirmation may have been missed
			return w.report(ctx, Gone)
		}
		w.present = true // the missed messages were about the key
	}
	return nil
}

// report calls handle with the fate of the key.
func (w *keyWatcher) report(ctx context.Context, f script.Fate) error {
	w.present, w.confirming, w.confirmAgain = false, false, false
	if err := ctx.Err(); err != nil {
		return err
	}
	if !w.handle(f) {
		return errStopped
	}
	return nil
}

// check asks the server whether the key exists. Without an answer, the key stays stale.
func (w *keyWatcher) check(ctx context.Context) error {
	live := w.tap.Live()
	var exists bool
	err := w.ask(ctx, &exists)
	switch {
	case errors.Is(err, engine.ErrRefused), errors.Is(err, engine.ErrClosed):
		return err
	case err != nil || !live: // without live channels, events can be missed: check again
		w.present = w.present || exists
		return nil
	}
	w.stale = false
	if w.serverChanged {
		// It may not publish events any more.
		if err := w.findEvents(ctx); err == nil {
			w.serverChanged = false
		} else if errors.Is(err, engine.ErrNoEvents) || errors.Is(err, engine.ErrClosed) {
			return err
		} else {
			w.stale = true
		}
	}
	if exists {
		w.present = true
	} else if w.present {
		w.confirming = true
		if w.confirmAgain = len(w.unconfirmed) > 0; !w.confirmAgain {
			w.confirm()
		}
	}
	return nil
}

// confirm requests a confirmation of every channel.
func (w *keyWatcher) confirm() {
	w.confirmAgain = false
	for _, c := range w.events.Channels() {
		w.unconfirmed[c] = true
	}
	w.tap.Confirm()
}
