package redistest

import (
	"strings"
	"testing"
)

// pairingOf returns a pairing that has seen the given commands.
func pairingOf(cmds ...string) *pairing {
	p := new(pairing)
	for _, cmd := range cmds {
		words := strings.Fields(cmd)
		p.expect(&request{name: words[0], left: len(words) - 1})
	}
	return p
}

// settleAll feeds wire to p and returns the names of the requests its frames
// belong to, with "message" for messages and "-" for anything else.
func settleAll(t *testing.T, p *pairing, wire string) string {
	t.Helper()
	var got []string
	for r := newFrameReader(strings.NewReader(wire)); ; {
		f, err := r.next()
		if err != nil {
			return strings.Join(got, " ")
		}
		switch req, message := p.match(f); {
		case message:
			got = append(got, "message")
		case req != nil:
			got = append(got, req.name)
		default:
			got = append(got, "-")
		}
	}
}

const (
	subA   = "3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
	subB   = "3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"
	subC   = "3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:3\r\n"
	psubA  = "3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:4\r\n"
	unsubA = "3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:3\r\n"
	unsubB = "3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:2\r\n"
	unsubC = "3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"
	unsub0 = "3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"
	msg    = "3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
)

func TestPairing(t *testing.T) {
	tests := []struct {
		name string
		cmds []string
		wire string
		want string
	}{
		{
			"pipeline",
			[]string{"GET k", "SET k v", "PING"},
			"$-1\r\n+OK\r\n+PONG\r\n+stray\r\n", "GET SET PING -",
		}, {
			"RESP2 subscriptions",
			[]string{"SUBSCRIBE a b", "SUBSCRIBE c", "PING"},
			"*" + subA + "*" + msg + "*" + subB + "*" + subC + "*2\r\n$4\r\npong\r\n$0\r\n\r\n*" + msg,
			"SUBSCRIBE message SUBSCRIBE SUBSCRIBE PING message",
		}, {
			"RESP3 subscriptions",
			[]string{"HELLO 3", "GET k", "SUBSCRIBE a b", "SUBSCRIBE c", "GET k"},
			"%0\r\n>2\r\n+invalidate\r\n_\r\n_\r\n>" + subA + ">" + msg + ">" + subB + ">" + subC + ">" + msg + "+v\r\n",
			"HELLO - GET SUBSCRIBE message SUBSCRIBE SUBSCRIBE message GET",
		}, {
			"unsubscribe from all",
			[]string{"SUBSCRIBE a b c", "PSUBSCRIBE a", "UNSUBSCRIBE", "UNSUBSCRIBE", "PING"},
			"*" + subA + "*" + subB + "*" + subC + "*" + psubA + "*" + unsubA + "*" + unsubB + "*" + unsubC + "*" + unsub0 + "+PONG\r\n",
			"SUBSCRIBE SUBSCRIBE SUBSCRIBE PSUBSCRIBE UNSUBSCRIBE UNSUBSCRIBE UNSUBSCRIBE UNSUBSCRIBE PING",
		}, {
			"failed subscription",
			[]string{"SUBSCRIBE a", "PING"},
			"-NOPERM\r\n+PONG\r\n", "SUBSCRIBE PING",
		}, {
			"reply like a message",
			[]string{"LRANGE l 0 -1", "SUBSCRIBE a", "UNSUBSCRIBE a", "LRANGE l 0 -1"},
			"*" + msg + "*" + subA + "*" + unsubA + "*" + msg, "LRANGE SUBSCRIBE UNSUBSCRIBE LRANGE",
		}, {
			"reply like a message in RESP3",
			[]string{"HELLO 3", "SUBSCRIBE a", "LRANGE l 0 -1"},
			"%0\r\n>" + subA + "*" + msg, "HELLO SUBSCRIBE LRANGE",
		}, {
			"subscription ended by the server",
			[]string{"HELLO 3", "SSUBSCRIBE a", "GET k"},
			"%0\r\n>3\r\n+ssubscribe\r\n+a\r\n:1\r\n>3\r\n+sunsubscribe\r\n+a\r\n:0\r\n$-1\r\n", "HELLO SSUBSCRIBE - GET",
		}, {
			"reset",
			[]string{"HELLO 3", "SUBSCRIBE a", "RESET", "LRANGE l 0 -1", "HELLO 4", "SUBSCRIBE a", "PING"},
			"%0\r\n>" + subA + "+RESET\r\n*" + msg + "-NOPROTO\r\n*" + subA + "+PONG\r\n",
			"HELLO SUBSCRIBE RESET LRANGE HELLO SUBSCRIBE PING",
		},
	}
	for _, tt := range tests {
		if got := settleAll(t, pairingOf(tt.cmds...), tt.wire); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}
