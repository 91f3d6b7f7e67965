package soak_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// probe records when a server does not answer at once, changes its role, or is without its
// replica or its master, until stop is closed.
func probe(rec *recorder, s *redistest.Server, replicas int, stop <-chan struct{}) {
	const every, slow = 50 * time.Millisecond, 30 * time.Millisecond
	var role string
	var apart int64 // since when it has no replica, or no master
	for rest(stop, every) {
		before := redistest.Now()
		reply, err := s.Try("ROLE")
		now := redistest.Now()
		if now-before > int64(slow) {
			rec.add(record{At: before, Event: evStall, To: now})
		}
		if err != nil {
			continue // the conductor has killed it
		}
		is, whole := connected(reply, replicas)
		if role != "" && is != role {
			rec.add(record{At: before - int64(every), Event: evFault, To: now, Text: "role changed"})
		}
		role = is
		switch {
		case !whole && apart == 0:
			apart = before
		case whole && apart > 0:
			rec.add(record{At: apart, Event: evFault, To: now, Text: "replica apart"})
			apart = 0
		}
	}
}

// connected returns the role in a reply to ROLE, and whether the server has its replicas or its
// master.
func connected(reply any, replicas int) (role string, whole bool) {
	list, _ := reply.([]any)
	if len(list) < 3 {
		return "", false
	}
	role, _ = list[0].(string)
	if role == "master" {
		has, _ := list[2].([]any)
		return role, len(has) >= replicas
	}
	return role, len(list) > 3 && list[3] == "connected"
}
