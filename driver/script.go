package driver

import (
	"crypto/sha1"
	"encoding/hex"
)

// A Script is a Lua script with the hash that Redis caches it by.
type Script struct {
	Name   string // the name, such as "mutex_acquire"
	Source string // the Lua source
	SHA    string // the SHA-1 of Source in lower-case hexadecimal

	// Publish is the index, starting at 1, of the argument that contains the
	// publish command, "PUBLISH". If the listeners of a driver use sharded
	// channels, the driver replaces it with "SPUBLISH". Zero means that the
	// script does not publish.
	Publish int
}

// NewScript returns the script with the given name and source.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
}

// A Call is one execution of a script.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
}

// A Result is the result of one of several calls.
type Result struct {
	Reply Reply
	Err   error
	Acked int // the number of replicas that acknowledged the call, after DoAcked
}

// A Reply is the return value of a script: an integer, a string, a list of
// replies, or nil (the zero Reply).
type Reply struct {
	Type ReplyType
	Int  int64
	Str  string
	List []Reply
}

// A ReplyType says which field of a [Reply] is set.
type ReplyType uint8

// The types of replies.
const (
	Nil ReplyType = iota
	Int
	Str
	List
)

// String returns the name of the type in lower case.
func (t ReplyType) String() string {
	return [...]string{"nil", "int", "string", "list"}[t%4]
}
