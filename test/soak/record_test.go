package soak_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The events of a call, in this order.
const (
	evCall     = "call"     // is about to be made; Want says what it wants
	evFailed   = "failed"   // has returned an error; Text is its class
	evGot      = "got"      // has returned a lease, with Tokens
	evValid    = "valid"    // the lease was valid at At, and its context was not done at To
	evTold     = "told"     // the context is done; Text is the reason, To the deadline of the lease
	evReleased = "released" // the release has returned; Text is the class of its error
)

// Other events.
const (
	evStall = "stall" // the process got no processor, or a server did not answer, from At to To
	evLeak  = "leak"  // a process leaves something behind; Text says what
	evStop  = "stop"  // Process was stopped from At to To
	evKill  = "kill"  // Process was killed at At
	evFault = "fault" // Text was wrong from At to To, for the worker Process, or for all
)

// A record is one line that a process writes.
type record struct {
	At      int64  // nanoseconds of redistest.Now
	Process string `json:",omitempty"` // the worker and its life, as in "2.1"; empty: the conductor
	Event   string
	Call    int     `json:",omitempty"` // number of the call in its process
	To      int64   `json:",omitempty"`
	Text    string  `json:",omitempty"`
	Want    *want   `json:",omitempty"`
	Tokens  []int64 `json:",omitempty"` // of evGot, one for each name
}

// A want says what a call wants.
type want struct {
	Client   int // number of the client in its process
	Kind     string
	Names    []string
	Shared   bool          `json:",omitempty"` // holds together with others that are shared
	Permits  int           `json:",omitempty"`
	Capacity int           `json:",omitempty"` // of a semaphore
	Lease    time.Duration // how long the server keeps the lock if the process dies
	Fixed    bool          `json:",omitempty"` // the lease is not renewed
	Keep     time.Duration `json:",omitempty"` // AtLeast
	Limit    time.Duration `json:",omitempty"` // of the wait; 0: none
}

// A recorder appends records to the file of a process. Each is one write, so a process that is
// killed leaves all that it has written.
type recorder struct {
	process string
	file    *os.File
}

func newRecorder(dir, process string) *recorder {
	name := filepath.Join(dir, "records-"+process+".jsonl")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return &recorder{process, f}
}

// add writes a record. Without a time, it has the current one.
func (r *recorder) add(rec record) {
	if rec.At == 0 {
		rec.At = redistest.Now()
	}
	if rec.Process == "" {
		rec.Process = r.process
	}
	line, err := json.Marshal(rec)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic("soak: cannot record: " + err.Error()) // incomplete records would prove nothing
	}
}

// readRecords reads all records in a directory. The last line of a process that was killed may
// be torn.
func readRecords(dir string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(dir, "records-*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			text = text[:i+1]
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			var rec record
			if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
			}
			all = append(all, rec)
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// workerOf returns the worker of which a process is a life.
func workerOf(process string) string {
	worker, _, _ := strings.Cut(process, ".")
	return worker
}
