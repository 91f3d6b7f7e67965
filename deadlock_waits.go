package holdfast

import "github.com/holdfast-go/holdfast/internal/script"

// Readers that share a hold have the same owner, and each of them may wait for another lock.
// A client keeps their waits by owner, so that one publication has all of them.

// note notes the wait of a call, and returns those of other calls with the same owner.
func (cs *calls) note(owner string, w script.Wait) []script.Wait {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := cs.waits[owner]
	var others []script.Wait
	for _, id := range sortedKeys(all) {
		if id != w.ID {
			others = append(others, all[id])
		}
	}
	if all == nil {
		all = make(map[string]script.Wait)
		if cs.waits == nil {
			cs.waits = make(map[string]map[string]script.Wait)
		}
		cs.waits[owner] = all
	}
	all[w.ID] = w
	return others
}

// forget removes the wait of a call. It reports whether no other call has the same owner.
func (cs *calls) forget(owner, id string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.waits[owner], id)
	if len(cs.waits[owner]) > 0 {
		return false
	}
	delete(cs.waits, owner)
	return true
}
