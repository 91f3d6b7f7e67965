package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/inspect"
)

// absentLock reports whether the server knows nothing about a lock. A mutex that is free keeps no
// data on the server.
func absentLock(lock inspect.Lock) bool {
	return lock.Kind == inspect.Mutex && lsFree(lock) && lsQueued(lock) <= 0 && lock.Clients <= 0
}

// absentError returns the error for a lock that the server does not know. It names locks with
// similar names.
func absentError(name string, similar []string) error {
	err := &exit{noLock, fmt.Errorf("no lock %s: the name is wrong, or the lock is free and keeps no data on the server", lsName(name, 60))}
	switch {
	case len(similar) > 0:
		shown := make([]string, len(similar))
		for i, s := range similar {
			shown[i] = lsName(s, 60)
		}
		return hint(err, "Did you mean "+strings.Join(shown, " or ")+"?")
	case strings.ContainsAny(name, "*?["):
		return hint(err, "This command takes a name. For a pattern, use holdfast ls.")
	}
	return hint(err, "Run holdfast ls to list the locks.")
}

const (
	similarNames = 3   // the maximum number of suggestions
	similarBytes = 100 // longer names are not compared
)

// similarAmong is the query for locks whose names may be similar: a few dozen requests.
var similarAmong = inspect.Query{Limit: 1000, Keys: 20_000, Step: 1000}

// similar returns names of existing locks that resemble a name, the most similar first. It
// returns those that it finds within the limits: errors are not essential here.
func similar(ctx context.Context, i *inspect.Inspector, name string) []string {
	found := []string{} // not nil: JSON would omit it
	if len(name) > similarBytes {
		return found
	}
	differences := make(map[string]int)
	for lock, err := range i.Locks(ctx, similarAmong) {
		if err != nil {
			break
		}
		if d := difference(strings.ToLower(name), strings.ToLower(lock.Name)); d >= 0 {
			found, differences[lock.Name] = append(found, lock.Name), d
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(differences[a]-differences[b], strings.Compare(a, b))
	})
	return found[:min(len(found), similarNames)]
}

// difference returns how many characters two similar names differ by. It is negative if they
// are not similar: if more than a third, or more than two, of the characters of a differ, and
// b does not contain a.
func difference(a, b string) int {
	const near = 2
	n := utf8.RuneCountInString(a)
	if len(b) > similarBytes {
		return -1
	}
	if d := distance([]rune(a), []rune(b)); d <= min(near, n/3) {
		return d
	}
	if n > near && strings.Contains(b, a) {
		return near + 1
	}
	return -1
}

// distance returns the number of characters to insert, delete, replace or swap with the next
// one that make a out of b.
func distance(a, b []rune) int {
	var rows [3][]int // the last three rows of the table of distances between prefixes
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
