package engine

import "strings"

// Whoever meets somebody with another order, such as Redisson, has to give way,
// and would have to again the next time. So a set that has given way remembers
// with what it began when it succeeded, and the next one of its shape begins
// with that. If that is wrong, because others keep to the order of all sets, it
// costs a moment and is forgotten.

// maxHabits bounds what is remembered. There are as many shapes as mixtures of
// clients and kinds, so it is for those who open clients again and again.
const maxHabits = 100

// shape is what sets have in common for which the same order is likely to be
// right, whatever the names: the clients, and where there is a queue.
func shape(planned []unit) string {
	var b strings.Builder
	for _, u := range planned {
		b.WriteString(u.e.id)
		if u.wants[0].Kind.Traits().Queueing {
			b.WriteByte('q')
		}
	}
	return b.String()
}

// recall returns with which unit to begin.
func recall(planned []unit) int {
	if len(planned) == 1 {
		return 0
	}
	e, key := planned[0].e, shape(planned)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.habits[key]
}

// remember keeps with which unit a set has succeeded.
func remember(planned []unit, first int) {
	e, key := planned[0].e, shape(planned)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.habits, key)
	if first == 0 {
		return
	}
	if len(e.habits) >= maxHabits {
		clear(e.habits)
	}
	e.habits[key] = first
}
