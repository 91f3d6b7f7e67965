package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Monitor calls see with every command that s executes from now on, those of
// scripts included. A replica also executes the commands of its master. It calls see
// from one goroutine at a time. The server keeps the commands until they are read, so
// none is missed when this process stands still.
//
// The returned function stops it, after see was called with everything that was
// executed before.
func (s *Server) Monitor(tb testing.TB, see func(command []string)) (stop func()) {
	tb.Helper()
	var mu sync.Mutex
	var stops []func()
	stop = sync.OnceFunc(func() {
		for _, f := range stops {
			f()
		}
	})
	tb.Cleanup(stop)
	for _, node := range s.nodes() {
		a := &admin{addr: node.admin.addr, login: node.admin.login, tls: node.admin.tls}
		if _, err := a.do("MONITOR"); err != nil {
			tb.Fatalf("redistest: MONITOR: %v", err)
		}
		_ = a.conn.SetDeadline(time.Time{})
		last := fmt.Sprintf("end of monitor %p", a)
		done := make(chan error, 1)
		go func() {
			defer a.close()
			for {
				f, err := a.frames.next()
				if err != nil {
					done <- err
					return
				}
				line, _ := f.value.(string)
				command, err := parseMonitor(line)
				if err != nil || len(command) == 2 && command[1] == last {
					done <- err
					return
				}
				mu.Lock()
				see(command)
				mu.Unlock()
			}
		}()
		stops = append(stops, func() {
			if _, err := node.admin.do("ECHO", last); err != nil {
				a.close()
			}
			if err := <-done; err != nil {
				tb.Errorf("redistest: MONITOR: %v", err)
			}
		})
	}
	return stop
}

// parseMonitor splits a line of MONITOR, such as
//
//	1700000000.123456 [0 lua] "zadd" "key" "\x10"
//
// into the words of the command.
func parseMonitor(line string) (command []string, err error) {
	_, rest, ok := strings.Cut(line, "] ")
	for ok {
		word, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		text, err := strconv.Unquote(word)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		command = append(command, text)
		rest, ok = strings.CutPrefix(rest[len(word):], " ")
	}
	if len(command) == 0 {
		return nil, errors.New("no command in " + strconv.Quote(line))
	}
	return command, nil
}
