package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestEvents(t *testing.T) {
	var byEvent []string
	for _, word := range []string{"copy_to", "del", "evicted", "expired", "move_from", "move_to", "rename_from", "rename_to", "restore"} {
		byEvent = append(byEvent, "__keyevent@3__:"+word)
	}
	byKey := []string{"__keyspace@3__:a"}
	for setting, want := range map[string][]string{
		"Kgx": byKey, "gxKE": byKey, "AKE": byKey, "AK": byKey, "gxE": byEvent, "AE": byEvent,
	} {
		e, err := NewEvents(facts(setting, 3), "a")
		if err != nil || !slices.Equal(e.Channels(), want) {
			t.Errorf("%q: %v, %v", setting, e, err)
		}
	}
	for setting, want := range map[string]string{"": " Kgx,", "A": " AK,", "E": " Egx,", "gE": " gEx,", "xK": " xKg,", "gx": " gxK,"} {
		if _, err := NewEvents(facts(setting, 0), "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", setting, err, want)
		}
	}
	k, _ := NewEvents(facts("AK", 0), "a")
	e, _ := NewEvents(facts("AE", 0), "a")
	for word, want := range map[string]Fate{"del": Deleted, "expired": Expired, "evicted": Evicted, "rename_from": Moved, "move_from": Moved, "incrby": Alive} {
		if got := k.Fate("__keyspace@0__:a", word); got != want || !k.Concerns("__keyspace@0__:a", word) {
			t.Errorf("by key, %s: %v", word, got)
		}
		channel := "__keyevent@0__:" + word
		if got := e.Fate(channel, "a"); got != want || !e.Concerns(channel, "a") || e.Concerns(channel, "ab") {
			t.Errorf("by event, %s: %v", word, got)
		}
	}
}

func facts(events string, database int) driver.Facts {
	return driver.Facts{Database: database, Settings: map[string]string{"notify-keyspace-events": events}}
}
