package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
)

var clientGet = load("client_get")

// A Client is what a client says about itself.
type Client struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	Pod     string `json:"pod,omitempty"`
	Label   string `json:"label,omitempty"`
	Library string `json:"library,omitempty"`
	Since   int64  `json:"since,omitempty"` // Unix time in ms, by the clock of the client
}

const (
	maxClient = 2048 // bytes; the text of a client is never longer
	maxWord   = 128  // bytes of one field
)

// clientPrefix begins the keys of clients.
const clientPrefix = "holdfast:client:"

func clientKey(id string) string { return clientPrefix + id }

// Announce returns the call that makes the server keep what the client with that id says
// about itself.
func (c Client) Announce(id string, ttl time.Duration) driver.Call {
	c.clean()
	text, _ := json.Marshal(c) // strings and numbers
	return driver.Call{Script: valueSet, Keys: []string{clientKey(id)}, Args: append([]string{string(text)}, lasting(ttl)...)}
}

// Withdraw returns the call that makes the server forget the client with that id.
func Withdraw(id string) driver.Call {
	return driver.Call{Script: valueSet, Keys: []string{clientKey(id)}, Args: append([]string{""}, lasting(time.Millisecond)...)}
}

// LookAtClient returns the call that reads what the client with that id says about
// itself. DecodeClient decodes the reply.
func LookAtClient(id string) driver.Call {
	return driver.Call{Script: clientGet, Keys: []string{clientKey(id)}, Args: []string{strconv.Itoa(maxClient)}}
}

// DecodeClient decodes the reply to LookAtClient. It returns false if the server knows
// nothing about the client. What is not text of a client is ignored: it is not needed.
func DecodeClient(r driver.Reply) (Client, bool, error) {
	c, ok, err := decodeJSON[Client](r)
	c.clean()
	return c, ok, err
}

// clean removes from all texts what does not belong into a line.
func (c *Client) clean() {
	for _, s := range []*string{&c.Host, &c.Program, &c.Version, &c.Pod, &c.Label, &c.Library} {
		*s = word(*s)
	}
}

// word returns a text of at most maxWord bytes, without characters that cannot be printed.
func word(s string) string {
	if len(s) > maxWord {
		s = s[:maxWord]
		for len(s) > 0 && !utf8.ValidString(s[len(s)-min(len(s), utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// Text returns in a few words the client with that id, such as "api-7f9 (api, pid 12)".
func (c *Client) Text(id string) string {
	if c == nil || c.Library == "" {
		return "client " + ShortID(id)
	}
	var about []string
	if name := cmp.Or(c.Label, c.Program); name != "" {
		about = append(about, name)
	}
	if c.PID > 0 {
		about = append(about, "pid "+strconv.Itoa(c.PID))
	}
	return fmt.Sprintf("%s (%s)", cmp.Or(c.Pod, c.Host), strings.Join(about, ", "))
}

// ShortID returns the first part of the id of a client.
func ShortID(id string) string { return strings.SplitN(id, "-", 2)[0] }

// ClientOf returns the id of the client of an owner, or "" if the owner has not the form
// that Holdfast and Redisson use.
func ClientOf(owner string) string {
	id, number, ok := strings.Cut(owner, ":")
	if !ok || id == "" || number == "" || len(id) > 64 || strings.Trim(number, "0123456789") != "" || strings.Trim(id, "0123456789abcdefABCDEF-") != "" {
		return ""
	}
	return id
}

// ClientWalk is the walk that finds the ids of clients.
func ClientWalk() Walk { return prefixWalk(clientPrefix) }

// prefixWalk is the walk that finds strings whose keys are a prefix and an id. It returns the
// ids.
func prefixWalk(prefix string) Walk {
	return Walk{kind: "string", pattern: prefix + "*", names: func(key string) []string {
		if id := strings.TrimPrefix(key, prefix); ClientOf(id+":1") == id && id != "" {
			return []string{id}
		}
		return nil
	}}
}
