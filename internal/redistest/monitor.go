package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Monitor calls see with every command that s executes from now on, in the form of
// [Printed], those of scripts included. A replica also executes the commands of its
// master. It calls see from one goroutine at a time. The server keeps the commands
// until they are read, so none is missed when this process stands still.
//
// The returned function stops it, after see was called with everything that was
// executed before.
func (s *Server) Monitor(tb testing.TB, see func(command string)) (stop func()) {
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
		info, err := a.do("INFO", "server")
		if err != nil {
			tb.Fatalf("redistest: INFO: %v", err)
		}
		form := unquoted.Replace
		if text, _ := info.(string); strings.Contains(text, "holdfast_memory:1") {
			form = memoryForm
		}
		if _, err := a.do("MONITOR"); err != nil {
			tb.Fatalf("redistest: MONITOR: %v", err)
		}
		_ = a.conn.SetDeadline(time.Time{})
		last := fmt.Sprintf("end of monitor %p", a)
		end := Printed("ECHO", last)
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
				_, command, ok := strings.Cut(line, "] ") // 1700000000.123456 [0 lua] "zadd" "key" "\x10"
				if !ok {
					done <- fmt.Errorf("no command in %q", line)
					return
				}
				if command = form(command); command == end {
					done <- nil
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

// unquoted removes the quotes around the words of a command, and everything that
// is escaped differently by some servers.
var unquoted = strings.NewReplacer(`"`, "", `\`, "")

// memoryForm returns a command that the server in memory prints, which quotes words as Go
// does, in the form of [Printed].
func memoryForm(command string) string {
	var words []string
	for command != "" {
		word, err := strconv.QuotedPrefix(command)
		if err != nil {
			return unquoted.Replace(command)
		}
		command = strings.TrimPrefix(command[len(word):], " ")
		plain, _ := strconv.Unquote(word) // QuotedPrefix has found it valid
		words = append(words, plain)
	}
	return Printed(words...)
}

// Printed returns a command in the form that [Server.Monitor] reports. It is what
// MONITOR prints, without quotes and backslashes: Valkey 8.1.0 and 8.1.1 do not
// escape them in words, so the words cannot be restored from what they print.
func Printed(words ...string) string {
	var b strings.Builder
	for _, c := range []byte(strings.Join(words, " ")) {
		switch i := strings.IndexByte("\n\r\t\a\b", c); {
		case i >= 0:
			b.WriteByte("nrtab"[i])
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "x%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	return unquoted.Replace(b.String())
}
