package rueidis

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// checked returns what a checkedConn reports about replies that arrive in pieces of a
// given size, with some commands sent before.
func checked(b []byte, size int, owed int64) (left int64, err error) {
	var r replies
	var n atomic.Int64
	n.Store(owed)
	for len(b) > 0 && err == nil {
		k := min(size, len(b))
		err = r.check(b[:k], &n)
		b = b[k:]
	}
	return n.Load(), err
}

const validReplies = "+OK\r\n-ERR no\r\n:-7\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n:1\r\n*1\r\n$1\r\n\n\r\n" +
	"%1\r\n+a\r\n*2\r\n_\r\n#t\r\n~1\r\n,1.5\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n%0\r\n"

// What servers send passes, however it is cut into pieces, and each reply is
// counted.
func TestCheckedConnPasses(t *testing.T) {
	const replies = 15
	for size := 1; size < len(validReplies); size++ {
		if left, err := checked([]byte(validReplies), size, replies); left != 0 || err != nil {
			t.Fatalf("in pieces of %d: %d commands are not answered, %v", size, left, err)
		}
	}
	if _, err := checked([]byte(validReplies), 7, replies-1); !errors.Is(err, errUnexpected) {
		t.Errorf("a reply more than commands: %v", err)
	}
	nested := strings.Repeat("*1\r\n", maxDepth)
	if _, err := checked([]byte(nested+":1\r\n"), 5, 1); err != nil {
		t.Errorf("lists in lists: %v", err)
	}
	if _, err := checked([]byte(nested+"*1\r\n"), 5, 1); err == nil {
		t.Error("lists that are nested too deep are accepted")
	}
	large := fmt.Sprintf("*2\r\n$%d\r\n", maxString/2+1)
	if _, err := checked([]byte(large+strings.Repeat("x", maxString/2+1)+"\r\n"+large[4:]), 1<<20, 1); err == nil {
		t.Error("strings that are too long together are accepted")
	}
	if _, err := checked([]byte(strings.Repeat(fmt.Sprintf("*%d\r\n", maxElements/2), 3)), 5, 1); err == nil {
		t.Error("lists that are too long together are accepted")
	}
}

// Commands are counted, however they are cut into pieces.
func TestCheckedConnCounts(t *testing.T) {
	sent := []byte("*1\r\n$4\r\nPING\r\n*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$12\r\n*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n")
	for size := 1; size < len(sent); size++ {
		var c commands
		var n int64
		for b := sent; len(b) > 0; {
			k := min(size, len(b))
			n += c.count(b[:k])
			b = b[k:]
		}
		if n != 3 {
			t.Fatalf("in pieces of %d: %d commands, want 3", size, n)
		}
	}
}

// The result does not depend on how the replies arrive.
func FuzzCheckedConn(f *testing.F) {
	for _, s := range []string{validReplies, "$-5\r\n", "*-7\r\n", "$9223372036854775807\r\n", "*1\r\n*1\r\n", ">0\r\n", "#true\r\n", "+OK\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		left, err := checked(b, len(b)+1, 5)
		for _, size := range []int{1, 2, 3, 7} {
			l, e := checked(b, size, 5)
			if (e == nil) != (err == nil) || e == nil && l != left {
				t.Errorf("%q at once: %d, %v; in pieces of %d: %d, %v", b, left, err, size, l, e)
			}
		}
	})
}

// BenchmarkCheckedConn measures what a checkedConn adds to a call: the command on its way
// out and the reply on its way in.
func BenchmarkCheckedConn(b *testing.B) {
	cmd := []byte("*8\r\n$7\r\nEVALSHA\r\n$40\r\n" + strings.Repeat("a", 40) + "\r\n$1\r\n2\r\n$4\r\nlock\r\n$31\r\n" + strings.Repeat("c", 31) +
		"\r\n$5\r\n30000\r\n$38\r\n" + strings.Repeat("o", 38) + "\r\n$1\r\n1\r\n")
	info := fmt.Appendf(nil, "$%d\r\n%s\r\n", 6000, bytes.Repeat([]byte("x"), 6000))
	for name, reply := range map[string][]byte{"number": []byte(":1763278334123456\r\n"), "list": []byte("*3\r\n:1\r\n$5\r\nhello\r\n:-1\r\n"), "info": info} {
		b.Run(name, func(b *testing.B) {
			var g checkedConn
			b.ReportAllocs()
			for b.Loop() {
				g.unanswered.Add(g.out.count(cmd))
				if err := g.in.check(reply, &g.unanswered); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
