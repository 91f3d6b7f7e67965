package rueidis

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// array returns words as the servers write them.
func array(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// number reads the head of an array or of a string.
func number(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 2 {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// pretend starts a server that gives prepared answers, and returns its address.
func pretend(t *testing.T, answer func(command string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					n, err := number(r)
					if err != nil {
						return
					}
					var words []string
					for range n {
						size, err := number(r)
						if err != nil {
							return
						}
						word := make([]byte, size+2)
						if _, err := io.ReadFull(r, word); err != nil {
							return
						}
						words = append(words, string(word[:size]))
					}
					if _, err := io.WriteString(conn, answer(strings.ToUpper(strings.Join(words, " ")))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// While a sentinel leads a failover, its description of the master still has the
// old address. The one that it gives to clients counts, with the new epoch.
func TestFailoverGoingOn(t *testing.T) {
	t.Parallel()
	described := 0
	addr := pretend(t, func(command string) string {
		switch {
		case command == "SENTINEL MASTER M":
			described++
			epoch := "5"
			if described > 1 { // it was chosen after the first question
				epoch = "6"
			}
			return array("ip", "10.0.0.1", "port", "1", "config-epoch", epoch)
		case command == "SENTINEL GET-MASTER-ADDR-BY-NAME M":
			return array("10.0.0.2", "2")
		case command == "SENTINEL MYID":
			return "+me\r\n"
		case command == "SENTINEL SENTINELS M":
			return "*0\r\n"
		case strings.HasPrefix(command, "PING"):
			return "+PONG\r\n"
		}
		return "+OK\r\n"
	})
	d := &Driver{
		c:    Config{Mode: Sentinel, Network: "tcp", Addrs: []string{addr}, MasterName: "m", DialTimeout: patient, Timeout: patient, RESP2: true},
		life: context.Background(),
	}
	s := newSentinels(d)
	defer s.close()
	a := s.askSentinel(t.Context(), s.nodes[addr])
	if a.err != nil || a.addr != "10.0.0.2:2" || a.epoch != 6 || a.id != "me" {
		t.Errorf("the sentinel says %+v, %v, want 10.0.0.2:2 in epoch 6", a, a.err)
	}
}
