// Package interop tests Holdfast together with Redisson. The tests drive both on the
// same servers and names. A benchmark compares both in one table.
//
// Redisson runs in a separate process, the peer, which calls the methods that the
// tests name (src/main/java/holdfast/Peer.java). The tests therefore observe the
// behaviour of Redisson itself.
package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Release is a release of Redisson that the peer is built with.
type Release string

// The releases.
const (
	Current Release = "current" // the newest
	Era     Release = "era"     // a release of 2020 that many services still use
)

// answerTime is the limit for an answer of the peer.
const answerTime = 5 * time.Minute

// A Peer is a process that runs Redisson.
type Peer struct {
	Release Release

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	gone   chan struct{} // closed when the process has ended

	mu      sync.Mutex
	last    int
	waiting map[int]chan<- Answer
}

// Start starts a peer. `make interop` builds the files that it needs.
func Start(release Release) (*Peer, error) {
	lib, err := library(release)
	if err != nil {
		return nil, err
	}
	p := &Peer{Release: release, gone: make(chan struct{}), waiting: make(map[int]chan<- Answer)}
	p.cmd = exec.Command("java", "-XX:+UseSerialGC", "-Xmx512m",
		// The codecs of the early release access these packages by reflection.
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(lib, "*"), "holdfast.Peer")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = dieWithParent()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("interop: %w: install Java 17", err)
	}
	go p.read(stdout)
	return p, nil
}

// library returns the directory of the peer of a release.
func library(release Release) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		lib := filepath.Join(dir, "target", string(release), "lib")
		if _, err := os.Stat(filepath.Join(lib, "peer-1.jar")); err == nil {
			return lib, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return "", fmt.Errorf("interop: the peer with the %s Redisson is not built: run `make interop`", release)
}

func (p *Peer) read(stdout io.Reader) {
	r := bufio.NewReaderSize(stdout, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		var a Answer
		if err := json.Unmarshal(line, &a); err != nil {
			panic(fmt.Sprintf("interop: invalid answer of the peer: %q: %v", line, err))
		}
		p.mu.Lock()
		ch := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		ch <- a
	}
	_ = p.cmd.Wait()
	close(p.gone)
}

// A Call is a method call. Args are numbers, strings, booleans, [Object]s, nil, and
// slices of these.
type Call struct {
	Thread string `json:"thread,omitempty"`
	On     string `json:"on,omitempty"`
	Method string `json:"call,omitempty"`
	Args   []any  `json:"args,omitempty"`
	As     string `json:"as,omitempty"`

	// Instead of a method: calls in sequence, repeated.
	Calls  []Call `json:"calls,omitempty"`
	Times  int    `json:"times,omitempty"`
	Millis int64  `json:"millis,omitempty"`
}

// An Answer is the result of a call.
type Answer struct {
	ID    int
	Value any
	Error string
	Owner int64      // the number of the thread, the second half of Redisson's owner ids
	Spans [][2]int64 // when each call began and ended, in nanoseconds of redistest.Now
}

// Err returns the error that the call threw.
func (a Answer) Err() error {
	if a.Error == "" {
		return nil
	}
	return errors.New(a.Error)
}

// Bool returns the value, which is true or false.
func (a Answer) Bool() bool { return a.Value.(bool) }

// Int returns the value, which is a whole number.
func (a Answer) Int() int64 { return int64(a.Value.(float64)) }

// String returns the value as text.
func (a Answer) String() string { return fmt.Sprint(a.Value) }

// Began returns when the first call began.
func (a Answer) Began() int64 { return a.Spans[0][0] }

// Ended returns when the last call ended.
func (a Answer) Ended() int64 { return a.Spans[len(a.Spans)-1][1] }

// Send sends a call to the peer. The channel receives the answer.
func (p *Peer) Send(c Call) <-chan Answer {
	ch := make(chan Answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	line, err := json.Marshal(struct {
		ID int `json:"id"`
		Call
	}{p.last, c})
	if err != nil {
		panic(err)
	}
	p.waiting[p.last] = ch
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		delete(p.waiting, p.last)
		ch <- Answer{ID: p.last, Error: "interop: the peer has ended: " + err.Error()}
	}
	return ch
}

// Do sends a call to the peer and waits for the answer.
func (p *Peer) Do(c Call) Answer { return p.await(p.Send(c)) }

func (p *Peer) await(ch <-chan Answer) Answer {
	select {
	case a := <-ch:
		return a
	case <-p.gone:
		select {
		case a := <-ch:
			return a
		default:
			return Answer{Error: "interop: the peer has ended: " + p.Stderr()}
		}
	case <-time.After(answerTime):
		return Answer{Error: fmt.Sprintf("interop: no answer within %v", answerTime)}
	}
}

// Stderr waits for the end of the process and returns its error output, which
// includes the log of Redisson.
func (p *Peer) Stderr() string {
	<-p.gone
	return strings.TrimSpace(p.stderr.String())
}

// Kill kills the process, like kill -9.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// Pause stops the process.
func (p *Peer) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (p *Peer) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
