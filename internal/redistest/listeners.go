package redistest

import "testing"

// Listeners returns how many connections have subscribed to a channel.
func (s *Server) Listeners(tb testing.TB, channel string) int {
	tb.Helper()
	var n int64
	awaitThat(tb, "the server counts the listeners of "+channel, func() bool {
		reply, _ := s.Do(tb, "PUBSUB", "NUMSUB", channel).([]any)
		if len(reply) != 2 {
			tb.Fatalf("redistest: NUMSUB: %v", reply)
		}
		if n, _ = reply[1].(int64); n < 1<<31 {
			return true
		}
		// Valkey 9.1 returns wrong numbers while it resizes its table of the listeners.
		// Each change of the table resizes a part of it.
		for _, node := range s.nodes() {
			a := &admin{addr: node.admin.addr, login: node.admin.login, tls: node.admin.tls}
			for _, command := range []string{"SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE"} {
				_, _ = a.do(command, channel) // fails where the slot of the channel is not
			}
			a.close()
		}
		return false
	})
	return int(n)
}
