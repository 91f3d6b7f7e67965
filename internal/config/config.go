// Package config reads configuration files in Redisson's format: YAML or JSON,
// with Redisson's keys and the additional section holdfast.
//
// A key of Redisson is used, or has no effect here and is reported, or is
// refused because ignoring it would be wrong. Unknown keys are refused. Errors
// contain line numbers and known keys, but never values, unknown keys or
// variables.
package config

import (
	"time"

	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// Settings are the settings of a file. A zero field means that the file does
// not have the setting.
type Settings struct {
	Servers rueidis.Config

	WatchdogTimeout time.Duration
	RenewEvery      time.Duration
	PollInterval    time.Duration
	RetryTimeout    time.Duration
	Handoffs        int
	HandoffTime     time.Duration
	WakeAll         bool
	MaxQueue        int
	NamePrefix      string
	Label           string
	Anonymous       bool
	Deadlocks       string // end or ignore; "": report

	Replication string        // "async", "acked" or "strict"
	Replicas    int           // number of replicas that must acknowledge; only with "strict"
	SyncTimeout time.Duration // how long to wait for the replicas
	ClockSkew   time.Duration

	Mapper Mapper

	Ignored []string // keys that have no effect, in the order of the file
	AnyHost bool     // the host names in the certificates of the servers are not verified
}

// A Mapper is the nameMapper of a file.
type Mapper struct {
	Line  int  // 0: there is none
	Other bool // it is not Redisson's default, which changes nothing
}

// Parse parses the text of a file. It gets environment variables from env.
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

// CheckNames returns an error if the file gives a lock one name in Java and another in
// Go, which puts the prefix before each name.
func (s Settings) CheckNames(prefix string) error {
	switch {
	case s.Mapper.Other && prefix == "":
		return wrong(s.Mapper.Line, "nameMapper", "Java would map names and Go would not, so they would use different locks: "+
			"set Options.NamePrefix or holdfast.namePrefix to the prefix that this class adds; "+
			"if it does something else, use the mapped names in the Go program, and remove this key")
	case s.Mapper.Line > 0 && !s.Mapper.Other && prefix != "":
		return wrong(s.Mapper.Line, "nameMapper", "this class does not change names, but NamePrefix does, so Java and Go would use different locks: "+
			"remove this key if no Java program uses the file, or remove NamePrefix")
	}
	return nil
}

// A reader collects the settings while a file is parsed.
type reader struct {
	env   func(string) (string, bool)
	s     Settings
	given map[string]given // by key

	section   string // the section with the servers
	addresses []address
	database  int

	attempts *int
	delay    func(n int) time.Duration // the maximum sum of the pauses of n attempts
	interval time.Duration             // instead of delay, in older files

	verification string // STRICT, CA_ONLY or NONE
	protocols    []string
	files        tlsFiles
	synced       *bool // checkLockSyncedSlaves
}

// given is the position and the value of a key.
type given struct {
	where string
	line  int
	value string // the value of a scalar
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
