package redistest

import (
	"strings"
	"sync"
)

// request is a forwarded command without a reply so far.
type request struct {
	name     string // in upper case
	left     int    // confirmations still to come, if it is a subscription
	answered bool   // its reply, or the first of its confirmations, has arrived
	holds    []*hold
	drops    []*drop
}

// confirmations are the kinds of frames that confirm SUBSCRIBE and its
// relatives. A kind has the name of its command. The class says which
// subscriptions an unsubscribe without arguments ends.
var confirmations = map[string]struct {
	class byte
	add   bool
}{
	"subscribe":    {'c', true},
	"unsubscribe":  {'c', false},
	"psubscribe":   {'p', true},
	"punsubscribe": {'p', false},
	"ssubscribe":   {'s', true},
	"sunsubscribe": {'s', false},
}

// messages are the kinds of frames that carry a published message.
var messages = map[string]bool{"message": true, "pmessage": true, "smessage": true}

// pairing finds the request that a frame of the server answers. Servers answer
// in order, with two exceptions: published messages answer nothing, and a
// subscription is answered by one confirmation for each channel. In RESP3 both
// are pushes. In RESP2 they are arrays, and only their position distinguishes
// them from replies.
type pairing struct {
	mu      sync.Mutex
	waiting []*request
	resp3   bool
	subs    map[byte]map[string]bool // by class of subscription
}

// expect adds a request that is about to be sent.
func (p *pairing) expect(req *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, req)
}

// match takes a frame from the server. It returns the request that the frame
// belongs to, if any, and whether the frame is a published message.
func (p *pairing) match(f frame) (req *request, message bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := f.words()
	if f.kind == '>' || p.pubsub(words) {
		if len(words) == 0 {
			return nil, false
		}
		return p.confirm(words), messages[words[0]]
	}
	if len(p.waiting) == 0 {
		return nil, false
	}
	// The request may be a subscription that failed.
	req = p.pop()
	_, failed := f.value.(replyError)
	switch {
	case failed:
	case req.name == "HELLO":
		p.resp3 = f.kind == '%'
	case req.name == "RESET":
		p.resp3, p.subs = false, nil
	}
	return req, false
}

// pubsub reports whether an array that starts with words is a message or a
// confirmation, and not a reply that looks like one. It is false in RESP3, and
// while there is no subscription.
func (p *pairing) pubsub(words []string) bool {
	if p.resp3 || len(words) == 0 {
		return false
	}
	if _, ok := confirmations[words[0]]; !ok && !messages[words[0]] {
		return false
	}
	for _, set := range p.subs {
		if len(set) > 0 {
			return true
		}
	}
	if len(p.waiting) == 0 {
		return false
	}
	_, ok := confirmations[strings.ToLower(p.waiting[0].name)]
	return ok
}

// confirm takes a push and returns the subscription that it confirms, if any.
func (p *pairing) confirm(words []string) *request {
	c, ok := confirmations[words[0]]
	if !ok {
		return nil
	}
	if len(words) > 1 { // else there was nothing to unsubscribe from
		p.subscribed(c.class, words[1], c.add)
	}
	if len(p.waiting) == 0 || p.waiting[0].name != strings.ToUpper(words[0]) {
		return nil // the server has ended the subscription
	}
	req := p.waiting[0]
	req.left--
	// An unsubscribe without arguments ends all subscriptions of its class.
	if req.left == 0 || req.left < 0 && len(p.subs[c.class]) == 0 {
		p.pop()
	}
	return req
}

// subscribed keeps track of the subscriptions of the connection.
func (p *pairing) subscribed(class byte, channel string, on bool) {
	if !on {
		delete(p.subs[class], channel)
		return
	}
	if p.subs == nil {
		p.subs = make(map[byte]map[string]bool)
	}
	if p.subs[class] == nil {
		p.subs[class] = make(map[string]bool)
	}
	p.subs[class][channel] = true
}

func (p *pairing) pop() *request {
	req := p.waiting[0]
	p.waiting = p.waiting[1:]
	return req
}
