package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// A Fate is what has happened to a key.
type Fate uint8

// The fates. A key that is alive was changed.
const (
	Alive Fate = iota
	Deleted
	Expired
	Evicted
	Moved // to another name or database
)

// fates are the server's words for the ends of a key, and, of the classes that
// are needed for these, for its beginnings.
var fates = map[string]Fate{
	"del": Deleted, "expired": Expired, "evicted": Evicted, "rename_from": Moved, "move_from": Moved,
	"rename_to": Alive, "move_to": Alive, "copy_to": Alive, "restore": Alive,
}

// Events are the channels on which the server tells what happens to a key.
type Events struct {
	key      string
	channels []string
	before   string // of their names, where they are those of events; else ""
}

// NewEvents returns how to hear of a key of that server, given its setting
// notify-keyspace-events, or says what has to be set.
func NewEvents(server driver.Facts, key string) (*Events, error) {
	setting := server.Settings["notify-keyspace-events"]
	// In a cluster, only the name of a key tells the node to listen to.
	keyspace, keyevent := strings.Contains(setting, "K"), strings.Contains(setting, "E") && !server.Cluster
	lacks := ""
	if !keyspace && !keyevent {
		lacks = "K"
	}
	for _, class := range []string{"g", "x"} { // what people do to keys, and what time does
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

// Channels returns the channels to listen to.
func (e *Events) Channels() []string { return e.channels }

// Concerns reports whether a message is about the key.
func (e *Events) Concerns(_, payload string) bool { return e.before == "" || payload == e.key }

// Fate returns what a message about the key says.
func (e *Events) Fate(channel, payload string) Fate {
	if e.before != "" {
		return fates[strings.TrimPrefix(channel, e.before)]
	}
	return fates[payload]
}
