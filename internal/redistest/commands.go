package redistest

import (
	"net/url"
	"slices"
	"strconv"
	"testing"
)

// Try runs a command on the server, past any proxy, and returns its reply: a
// string, int64, nil, or []any of these. An error reply is returned as an error
// with the text of the server; inside an array it is an element of type error.
//
// All callers share one connection, so commands that block or change its state
// do not belong here.
func (s *Server) Try(args ...string) (any, error) {
	if s.several != nil {
		return s.several.do(args...)
	}
	return s.admin.do(args...)
}

// Do is like [Server.Try] and fails the test on an error.
func (s *Server) Do(tb testing.TB, args ...string) any {
	tb.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		tb.Fatalf("redistest: %q: %v", args, err)
	}
	return reply
}

// As returns a function that runs commands as [Server.Try] does, but as the
// given user and on a connection of its own.
func (s *Server) As(tb testing.TB, user, password string) func(args ...string) (any, error) {
	a := &admin{addr: s.admin.addr, login: url.UserPassword(user, password), tls: s.admin.tls}
	tb.Cleanup(a.close)
	return a.do
}

// Int runs a command that answers with an integer, or with a string that
// contains one.
func (s *Server) Int(tb testing.TB, args ...string) int64 {
	tb.Helper()
	switch reply := s.Do(tb, args...).(type) {
	case int64:
		return reply
	case string:
		if n, err := strconv.ParseInt(reply, 10, 64); err == nil {
			return n
		}
		tb.Fatalf("redistest: %q: reply %q is not an integer", args, reply)
	default:
		tb.Fatalf("redistest: %q: reply %v is not an integer", args, reply)
	}
	return 0
}

// Strings runs a command that answers with an array of strings. Nil elements
// become empty strings.
func (s *Server) Strings(tb testing.TB, args ...string) []string {
	tb.Helper()
	list, ok := toStrings(s.Do(tb, args...))
	if !ok {
		tb.Fatalf("redistest: %q: reply is not an array of strings", args)
	}
	return list
}

// Channels returns the channels that have subscribers, sorted.
func (s *Server) Channels(tb testing.TB) []string {
	tb.Helper()
	list := s.Strings(tb, "PUBSUB", "CHANNELS", "*")
	slices.Sort(list)
	return list
}

// ShardChannels returns the sharded channels that have subscribers. Servers before
// Redis 7 have none.
func (s *Server) ShardChannels(tb testing.TB) []string {
	tb.Helper()
	if !HasSharded() {
		return nil
	}
	return s.Strings(tb, "PUBSUB", "SHARDCHANNELS")
}

// Keys returns all keys, sorted.
func (s *Server) Keys(tb testing.TB) []string {
	tb.Helper()
	var keys []string
	if s.several != nil {
		for _, master := range s.several.masters {
			keys = append(keys, master.Keys(tb)...)
		}
		slices.Sort(keys)
		return keys
	}
	for cursor := "0"; ; {
		reply, _ := s.Do(tb, "SCAN", cursor, "COUNT", "1000").([]any)
		if len(reply) != 2 {
			tb.Fatalf("redistest: SCAN: unexpected reply %v", reply)
		}
		page, _ := toStrings(reply[1])
		keys = append(keys, page...)
		if cursor, _ = reply[0].(string); cursor == "0" {
			break
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys) // a scan may return a key twice
}

// toStrings converts an array reply. It reports false for any other reply.
func toStrings(reply any) ([]string, bool) {
	elems, ok := reply.([]any)
	if !ok {
		return nil, false
	}
	list := make([]string, len(elems))
	for i, e := range elems {
		if e == nil {
			continue
		}
		if list[i], ok = e.(string); !ok {
			return nil, false
		}
	}
	return list, true
}
