// Package lockjson has the JSON form of locks, which the command and the dashboard print.
// The help of holdfast ls and docs/command.md describe it.
package lockjson

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/inspect"
)

// A Lock is the JSON form of a lock. If a text is not valid UTF-8, JSON replaces its
// invalid bytes, and a field whose name ends with Base64 has the exact bytes. Other
// characters that must not be shown raw are escaped by Medium.JSON of package display.
type Lock struct {
	Name         string   `json:"name"`
	NameBase64   string   `json:"nameBase64,omitempty"`
	Kind         string   `json:"kind"`
	Holders      []Holder `json:"holders"`
	Queue        []Waiter `json:"queue"`
	Queued       *int     `json:"queued"`  // nil: unknown
	Clients      *int     `json:"clients"` // nil: unknown
	Token        int64    `json:"token,omitempty"`
	Leader       string   `json:"leader,omitempty"`
	LeaderBase64 string   `json:"leaderBase64,omitempty"`
	More         int      `json:"more"`
}

// An Owner is the JSON form of an owner.
type Owner struct {
	Owner       string  `json:"owner"`
	OwnerBase64 string  `json:"ownerBase64,omitempty"`
	Client      *Client `json:"client,omitempty"`
}

// A Holder is the JSON form of a holder.
type Holder struct {
	Owner
	Mode        string `json:"mode"`
	Holds       int    `json:"holds"`
	ExpiresInMs *int64 `json:"expiresInMs"`         // nil: never
	SeenForMs   *int64 `json:"seenForMs,omitempty"` // nil: unknown
}

// A Waiter is the JSON form of a waiter.
type Waiter struct {
	Owner
	Place    int    `json:"place"`
	Kind     string `json:"kind"`
	Permits  int    `json:"permits,omitempty"`
	WaitedMs *int64 `json:"waitedMs"` // nil: unknown
}

// A Client is the JSON form of a client.
type Client struct {
	ID      string     `json:"id"`
	Java    bool       `json:"java,omitempty"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Program string     `json:"program,omitempty"`
	Version string     `json:"version,omitempty"`
	Pod     string     `json:"pod,omitempty"`
	Label   string     `json:"label,omitempty"`
	Library string     `json:"library,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Of returns the JSON form of a lock.
func Of(lock inspect.Lock) Lock {
	l := Lock{
		Name: lock.Name, NameBase64: exact(lock.Name), Kind: string(lock.Kind), Holders: []Holder{}, Queue: []Waiter{},
		Token: lock.Token, Leader: lock.Leader, LeaderBase64: exact(lock.Leader), More: lock.More,
		Queued: known(lock.Queued), Clients: known(lock.Clients),
	}
	for _, h := range lock.Holders {
		l.Holders = append(l.Holders, Holder{Owner: ownerOf(h.Owner, h.Client), Mode: string(h.Mode), Holds: h.Holds, ExpiresInMs: known(h.TTL.Milliseconds())})
	}
	for _, w := range lock.Queue {
		l.Queue = append(l.Queue, Waiter{Owner: ownerOf(w.Owner, w.Client), Place: w.Place, Kind: string(w.Kind), Permits: w.Permits, WaitedMs: known(w.Waited.Milliseconds())})
	}
	return l
}

// known returns a pointer to a number, or nil if it is negative.
func known[N int | int64](n N) *N {
	if n < 0 {
		return nil
	}
	return &n
}

func ownerOf(owner string, c *inspect.Client) Owner {
	o := Owner{Owner: owner, OwnerBase64: exact(owner)}
	if c == nil {
		return o
	}
	o.Client = &Client{c.ID, c.Java, c.Host, c.PID, c.Program, c.Version, c.Pod, c.Label, c.Library, nil}
	if !c.Since.IsZero() {
		since := c.Since.UTC()
		o.Client.Since = &since
	}
	return o
}

// exact returns text in base64 if it is not valid UTF-8, and otherwise "".
func exact(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}
