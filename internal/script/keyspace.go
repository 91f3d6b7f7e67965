package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// A Fate is an event on a key.
type Fate uint8

// The fates. A key that is alive was created or changed.
const (
	Alive Fate = iota
	Deleted
	Expired
	Evicted
	Moved // to another name or database
)

// fates maps the server's event names to fates: those for the end of a key, and
// those of the same classes for its creation.
var fates = map[string]Fate{
	"del": Deleted, "expired": Expired, "evicted": Evicted, "rename_from": Moved, "move_from": Moved,
	"rename_to": Alive, "move_to": Alive, "copy_to": Alive, "restore": Alive,
}

// Events holds the channels on which the server publishes events on a key.
type Events struct {
	key      string
	channels []string
	before   string // channel prefix if the channels are named by event; else ""
}

// NewEvents returns the Events of a key on a server with the given setting of
// notify-keyspace-events. If the setting does not suffice, the error says what
// to set.
func NewEvents(server driver.Facts, key string) (*Events, error) {
	setting := server.Settings["notify-keyspace-events"]
	// In a cluster, only the name of a key determines the node to subscribe on.
	keyspace, keyevent := strings.Contains(setting, "K"), strings.Contains(setting, "E") && !server.Cluster
	lacks := ""
	if !keyspace && !keyevent {
		lacks = "K"
	}
	for _, class := range []string{"g", "x"} { // generic commands and expiry
		if !strings.ContainsAny(setting, class+"A") {
			lacks += class
		}
	}
	if lacks != "" {
		return nil, fmt.Errorf("the server's notify-keyspace-events is %q: run CONFIG SET notify-keyspace-events %s, or set it in its configuration", setting, setting+lacks)
	}
	at := "@" + strconv.Itoa(server.Database) + "__:"
	if keyspace {
		return &Events{key: key, channels: []string{"__keyspace" + at + key}}, nil
	}
	e := &Events{key: key, before: "__keyevent" + at}
	for word := range fates {
		e.channels = append(e.channels, e.before+word)
	}
	slices.Sort(e.channels)
	return e, nil
}

// Channels returns the channels to subscribe to.
func (e *Events) Channels() []string { return e.channels }

// Concerns reports whether a message is about the key.
func (e *Events) Concerns(_, payload string) bool { return e.before == "" || payload == e.key }

// Fate returns the event in a message about the key.
func (e *Events) Fate(channel, payload string) Fate {
	if e.before != "" {
		return fates[strings.TrimPrefix(channel, e.before)]
	}
	return fates[payload]
}
