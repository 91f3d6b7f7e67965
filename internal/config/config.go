// Package config reads configuration files in the form of Redisson's: YAML or
// JSON, with the keys that its users know, and a section of our own.
//
// Every key that Redisson knows is honoured, or has no effect here and is
// reported, or is refused because to ignore it would be wrong. Anything else is
// refused as well. Errors name lines and known keys, never values, unknown keys or
// variables.
package config

import (
	"time"

	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// Settings are what a file says. Zero means that it says nothing.
type Settings struct {
	Servers rueidis.Config

	WatchdogTimeout time.Duration
	RenewEvery      time.Duration
	PollInterval    time.Duration
	RetryTimeout    time.Duration
	Handoffs        int
	HandoffTime     time.Duration

	Replication string        // "async", "acked" or "strict"
	Replicas    int           // how many must confirm; with "strict" only
	SyncTimeout time.Duration // how long they have to confirm
	ClockSkew   time.Duration

	Ignored []string // keys that have no effect, in the order of the file
	AnyHost bool     // of the certificates of the servers, the host is not checked
}

// Parse reads the text of a file. Its variables are looked up with env.
func Parse(text []byte, env func(string) (string, bool)) (Settings, error) {
	root, err := document(text)
	if err != nil {
		return Settings{}, err
	}
	r := &reader{env: env, given: make(map[string]given)}
	if err := r.mapping(root, "", topLevel()); err != nil {
		return Settings{}, err
	}
	for _, finish := range []func(*reader) error{finishServers, finishTLS, finishRetry, finishReplication} {
		if err := finish(r); err != nil {
			return Settings{}, err
		}
	}
	return r.s, nil
}

// A reader collects what a file says.
type reader struct {
	env   func(string) (string, bool)
	s     Settings
	given map[string]given // by key

	section   string // the one that names the servers
	addresses []address
	database  int

	attempts *int
	delay    func(n int) time.Duration // the longest pauses of n attempts, together
	interval time.Duration             // instead of delay, in older files

	verification string // STRICT, CA_ONLY or NONE
	protocols    []string
	files        tlsFiles
	synced       *bool // checkLockSyncedSlaves
}

// given says where a key stands and what it says there.
type given struct {
	where string
	line  int
	value string // of a scalar
	plain bool   // it is a scalar
}

type address struct {
	key  string
	line int
	url  string
}

type tlsFiles struct {
	line                      int
	ca, cert, key, serverName string
}
