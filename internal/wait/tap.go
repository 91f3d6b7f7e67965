package wait

// A Tap is a waiter that wants to know what was published on its channels, not
// only that something was. What it has not yet taken is kept, up to a bound: the
// driver's reader waits for nobody.
type Tap struct {
	*Waiter
	concerns func(channel, payload string) bool
	notices  []Notice // guarded by Hub.mu
	missed   bool     // some did not fit
}

// maxNotices bounds what a tap keeps.
const maxNotices = 100

// A Notice is something that a tap has heard.
type Notice struct {
	Sort             Sort
	Channel, Payload string // none if the connection was lost
}

// A Sort of notice says what it is about.
type Sort uint8

// The sorts of notices.
const (
	Message   Sort = iota // something was published
	Confirmed             // from here on, messages on the channel arrive
	Lost                  // from here on, none do
)

// Tap begins to listen to some channels. Messages that do not concern it are
// dropped.
func (h *Hub) Tap(concerns func(channel, payload string) bool, names ...string) *Tap {
	t := &Tap{concerns: concerns}
	t.Waiter = h.join(nil, t, names)
	return t
}

// Take returns what was heard since it was called last, and whether anything
// after that was missed.
func (t *Tap) Take() (heard []Notice, missed bool) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	heard, missed = t.notices, t.missed
	t.notices, t.missed = nil, false
	return heard, missed
}

// Confirm has the channels confirmed once more. Whatever was published before
// it was called is heard before that.
func (t *Tap) Confirm() {
	h := t.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, ch := range t.chs {
		h.listener.Subscribe(ch.name)
	}
}

// hear keeps a notice and wakes the waiter. The caller holds Hub.mu.
func (w *Waiter) hear(n Notice) {
	if t := w.tap; t != nil {
		switch {
		case n.Sort == Message && !t.concerns(n.Channel, n.Payload):
			return
		case len(t.notices) < maxNotices:
			t.notices = append(t.notices, n)
		default:
			t.missed = true
		}
	}
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is due already
	}
}
