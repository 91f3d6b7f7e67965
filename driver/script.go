package driver

import (
	"crypto/sha1"
	"encoding/hex"
)

// A Script is a Lua script and the name Redis caches it by.
type Script struct {
	Name   string // "mutex_acquire"
	Source string
	SHA    string // lower-case hexadecimal SHA-1 of Source

	// Publish is the number, from 1, of the argument that names the command to
	// publish with, "PUBLISH". A driver whose listeners use sharded channels
	// puts "SPUBLISH" there instead. Zero: the script publishes nothing.
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

// A Result is the outcome of one of several calls.
type Result struct {
	Reply Reply
	Err   error
	Acked int // replicas that acknowledged it, after DoAcked
}

// A Reply is what a script returned: an integer, a string, a list of replies,
// or nothing (the zero Reply).
type Reply struct {
	Type ReplyType
	Int  int64
	Str  string
	List []Reply
}

// A ReplyType tells which field of a [Reply] counts.
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
