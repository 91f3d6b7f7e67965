package memory

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// FuzzCommands sends bytes to a server, and the same bytes as a script and as a payload. The
// server must survive, and serve others.
func FuzzCommands(f *testing.F) {
	for _, a := range attacks {
		if len(a.args[1]) < 1000 && a.want != "ended" { // what takes seconds is in TestAttacks
			f.Add([]byte(resp(a.args...)))
			f.Add([]byte(a.args[1]))
		}
	}
	for _, seed := range []string{
		"PING\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n", "*1000000000\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*2\r\n$4\r\nPING\r\n", "\r\n\r\n",
		"HSET h a 1\r\nHGETALL h\r\nHSCAN h 0 MATCH a* COUNT 1\r\nHRANDFIELD h -2 WITHVALUES\r\nHINCRBY h a 5\r\nDUMP h\r\n",
		"ZADD z 1 a 2 b\r\nZRANGE z 0 -1 WITHSCORES\r\nZRANGEBYSCORE z (1 +inf LIMIT 0 1\r\nZREM z a b\r\nZINCRBY z nan a\r\n",
		"RPUSH l a b c\r\nLPOP l 9\r\nLREM l -1 a\r\nLINDEX l -1\r\nLRANGE l -9 9\r\n",
		"SET k v PX 1 NX GET\r\nPEXPIRE k -1\r\nCOPY k l DB 1\r\nMOVE k 99\r\nRENAME k k\r\nSCAN 0 MATCH [a-\\]* TYPE hash\r\nKEYS a*a*b\r\n",
		"SUBSCRIBE a __keyspace@0__:k\r\nMONITOR\r\nPUBLISH a b\r\nUNSUBSCRIBE\r\nHELLO 3 SETNAME x\r\nCLIENT ID\r\nSELECT 3\r\nCONFIG GET *\r\nQUIT\r\n",
		"SCRIPT LOAD return\r\nSCRIPT EXISTS x\r\nEVALSHA x 0\r\nEVAL x -1\r\nEVAL return 99\r\n",
		"local a, b = 1, 2; a, b = b, a; return {a .. b, #KEYS, string.format('%5.2f', a), {[a] = b, c = d}}",
		"local t = setmetatable({}, {__index = string, __call = function(t, x) return x end}); return t('x'):gsub('%w', '%0%0')",
		"for k, v in pairs(redis.call('hgetall', 'h')) do redis.call('zadd', 'z', k, v) end; return struct.pack('Bc0I', 1, 'a', 2)",
		payload("zset", "a", "1"), payload("hash", "a", "b", "c", "d"), payload("list", "", ""), payload("string", "x") + "\x00\x00\x00\x01",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := New()
		replies := bytes.Join([][]byte{
			exchange(t, s, data),
			exchange(t, s, []byte(resp("EVAL", string(data), "1", "key", "1", "a"))),
			exchange(t, s, []byte(resp("RESTORE", "a", "0", string(data), "REPLACE"))),
			exchange(t, s, []byte(resp("RESTORE", "b", "0", dumpMark+string(data), "REPLACE")+resp("DUMP", "b"))),
			exchange(t, s, []byte(resp("KEYS", string(data)))),
			exchange(t, s, []byte(resp("EVAL", "return {pcall(string.find, ARGV[1], ARGV[1]), pcall(string.gsub, ARGV[1], ARGV[1], ARGV[1]), pcall(string.format, ARGV[1], 1, 2, 3)}", "0", string(data)))),
		}, nil)
		for _, bug := range []string{errInternal.Error(), "runtime error", "nil pointer", "interface conversion"} {
			if bytes.Contains(replies, []byte(bug)) && !bytes.Contains(data, []byte(bug)) {
				t.Errorf("%s: %.500q", bug, replies)
			}
		}
		if got := string(exchange(t, s, []byte(resp("EVAL", untouched, "0")))); got != "+sound\r\n" {
			t.Errorf("another script gets %q", got)
		}
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > maxTaken {
			t.Errorf("%d MB allocated", taken>>20)
		}
	})
}

// exchange sends bytes to a server, and returns its replies until it has read all and closed the
// connection.
func exchange(t *testing.T, s *Server, data []byte) []byte {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve(halfClosed{server, bytes.NewReader(data)})
	}()
	replies, err := io.ReadAll(io.LimitReader(client, 64<<20))
	_ = client.Close()
	<-done
	if err != nil && !strings.Contains(err.Error(), "closed") {
		t.Error(fmt.Errorf("after %d bytes: %w", len(replies), err))
	}
	return replies
}

// A halfClosed connection has received all bytes that its client sends.
type halfClosed struct {
	net.Conn
	in io.Reader
}

func (c halfClosed) Read(p []byte) (int, error) { return c.in.Read(p) }
