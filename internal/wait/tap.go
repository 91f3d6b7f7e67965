package wait

// A Tap is a waiter that receives the messages on its channels, and not only wake-ups. It buffers a
// limited number of notices until Take, because the driver's reader must not block.
type Tap struct {
	*Waiter
	concerns func(channel, payload string) bool
	notices  []Notice // guarded by Hub.mu
	missed   bool     // some notices did not fit
}

// maxNotices is the size of the buffer of a tap.
const maxNotices = 100

// A Notice is an event on the channels of a tap.
type Notice struct {
	Sort             Sort
	Channel, Payload string // empty if Sort is Lost
}

// A Sort is the kind of a notice.
type Sort uint8

// The sorts of notices.
const (
	Message   Sort = iota // a message was published
	Confirmed             // messages on the channel arrive from now on
	Lost                  // no messages arrive from now on
)

// Tap returns a new tap on some channels. It drops messages for which concerns returns false.
func (h *Hub) Tap(concerns func(channel, payload string) bool, names ...string) *Tap {
	t := &Tap{concerns: concerns}
	t.Waiter = h.join(&Waiter{accept: t.accept}, names)
	return t
}

// Take returns the notices since the last call, and whether later ones did not fit.
func (t *Tap) Take() (heard []Notice, missed bool) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	heard, missed = t.notices, t.missed
	t.notices, t.missed = nil, false
	return heard, missed
}

// Confirm subscribes the channels again. All earlier messages precede the new confirmations.
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

// accept stores a notice, unless it is a message that does not concern the tap.
func (t *Tap) accept(n Notice) bool {
	switch {
	case n.Sort == Message && !t.concerns(n.Channel, n.Payload):
		return false
	case len(t.notices) < maxNotices:
		t.notices = append(t.notices, n)
	default:
		t.missed = true
	}
	return true
}
