package rueidis

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A connection counts as open when its server has answered with a whole line.
// What is left of a line would be taken for the next reply.
func TestFirstReply(t *testing.T) {
	tests := []struct {
		name, answer string
		hangUp       bool
		ok           bool
	}{
		{"answer", "+PONG\r\n", false, true},
		{"error", "-NOAUTH Authentication required.\r\n", false, true},
		{"part of an answer", "+", false, false},
		{"part of an answer, then the end", "+PON", true, false},
		{"silence", "", false, false},
		{"refusal", "-DENIED Redis is running in protected mode\r\n", true, false},
		{"endless line", "+" + strings.Repeat("x", 2000), false, false},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conn, server := net.Pipe()
			defer server.Close()
			go func() {
				_, _ = io.ReadFull(server, make([]byte, len("*1\r\n$4\r\nPING\r\n")))
				_, _ = io.WriteString(server, test.answer)
				if test.hangUp {
					_ = server.Close()
				}
			}()
			wait := 200 * time.Millisecond
			if test.ok {
				wait = time.Minute
			}
			err := firstReply(conn, time.Now().Add(wait))
			if (err == nil) != test.ok {
				t.Errorf("error %v", err)
			}
			if wrong := test.name == "endless line" || test.name == "another protocol"; errors.Is(err, driver.ErrNotRedis) != wrong {
				t.Errorf("error %v", err)
			}
			_ = conn.Close()
		})
	}
}
