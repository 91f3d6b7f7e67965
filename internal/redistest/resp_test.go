package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func readFrame(s string) (frame, error) {
	return newFrameReader(strings.NewReader(s)).next()
}

func TestFrameValues(t *testing.T) {
	tests := []struct {
		wire string
		want any
	}{
		{"+OK\r\n", "OK"},
		{"-ERR no\r\n", replyError("ERR no")},
		{":-7\r\n", int64(-7)},
		{"$5\r\nhel\r\n\r\n", "hel\r\n"},
		{"$0\r\n\r\n", ""},
		{"$-1\r\n", nil},
		{"*-1\r\n", nil},
		{"*0\r\n", []any{}},
		{"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", []any{int64(1), []any{"a"}}},
		{"_\r\n", nil},
		{"#t\r\n", true},
		{"#f\r\n", false},
		{",1.5\r\n", 1.5},
		{"(12345678901234567890123\r\n", "12345678901234567890123"},
		{"=7\r\ntxt:abc\r\n", "abc"},
		{"!3\r\nbad\r\n", replyError("bad")},
		{"~1\r\n+a\r\n", []any{"a"}},
		{"%1\r\n+a\r\n:1\r\n", []any{"a", int64(1)}},
		{">2\r\n+message\r\n+x\r\n", []any{"message", "x"}},
		{"|1\r\n+ttl\r\n:9\r\n+OK\r\n", "OK"},
	}
	for _, tt := range tests {
		f, err := readFrame(tt.wire + "+next\r\n")
		if err != nil {
			t.Errorf("%q: %v", tt.wire, err)
			continue
		}
		if !reflect.DeepEqual(f.value, tt.want) {
			t.Errorf("%q: value %#v, want %#v", tt.wire, f.value, tt.want)
		}
		if string(f.raw) != tt.wire {
			t.Errorf("%q: raw bytes %q", tt.wire, f.raw)
		}
		for cut := 1; cut < len(tt.wire); cut++ {
			if _, err := readFrame(tt.wire[:cut]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: error %v, want %v", tt.wire[:cut], err, io.ErrUnexpectedEOF)
			}
		}
	}
	if _, err := readFrame(""); !errors.Is(err, io.EOF) {
		t.Errorf("empty input: error %v, want %v", err, io.EOF)
	}
}

func TestFrameMalformed(t *testing.T) {
	for _, wire := range []string{
		"PING\r\n", "\r\n", "+OK\n", ":x\r\n", ":\r\n", "#x\r\n", "_x\r\n", ",x\r\n",
		"$x\r\n", "$-2\r\n", "=-1\r\ntxt:\r\n", "$1\r\nabc", "$99999999999\r\n", "$9999999999999999999999\r\n",
		"*-2\r\n", "*99999999999\r\n", "*?\r\n",
		strings.Repeat("*1\r\n", 100) + "+OK\r\n",
		strings.Repeat("|0\r\n", 100) + "+OK\r\n",
		"+" + strings.Repeat("x", maxLine) + "\r\n",
		"*2\r\n$16000000\r\n" + strings.Repeat("x", 16000000) + "\r\n$16000000\r\n",
	} {
		if _, err := readFrame(wire); !errors.Is(err, errProtocol) {
			t.Errorf("%.40q: error %v, want a protocol error", wire, err)
		}
	}
}

func TestFrameWords(t *testing.T) {
	tests := []struct {
		wire string
		want []string
	}{
		{string(appendCommand(nil, "SET", "k", "")), []string{"SET", "k", ""}},
		{">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", []string{"subscribe", "c"}},
		{"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", []string{"unsubscribe"}},
		{"*0\r\n", nil},
		{"*-1\r\n", nil},
		{"+message\r\n", nil},
		{"~1\r\n+message\r\n", nil},
	}
	for _, tt := range tests {
		f, err := readFrame(tt.wire)
		if err != nil {
			t.Fatalf("%q: %v", tt.wire, err)
		}
		if got := f.words(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: words %q, want %q", tt.wire, got, tt.want)
		}
	}
}

// FuzzFrame checks that whatever comes is either refused or given back byte by
// byte, and that reading those bytes again gives the same.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n#t\r\n",
		"|1\r\n+a\r\n,inf\r\n=7\r\ntxt:abc\r\n",
		"*2\r\n!3\r\nbad\r\n(99999999999999999999\r\n",
		"$-1\r\n_\r\n*-1\r\n",
		"*1000000000\r\n", "$1000000000\r\n", "*1\r\n*1\r\n*1\r\n", "PING\r\n", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newFrameReader(bytes.NewReader(data))
		for rest := data; ; {
			got, err := r.next()
			if err != nil {
				return
			}
			if !bytes.HasPrefix(rest, got.raw) || len(got.raw) == 0 {
				t.Fatalf("raw bytes %q are not the start of %q", got.raw, rest)
			}
			rest = rest[len(got.raw):]
			again, err := newFrameReader(bytes.NewReader(got.raw)).next()
			if err != nil {
				t.Fatalf("%q is not a frame the second time: %v", got.raw, err)
			}
			// As text, because NaN differs from itself.
			if a, b := fmt.Sprintf("%c%#v", got.kind, got.value), fmt.Sprintf("%c%#v", again.kind, again.value); a != b {
				t.Fatalf("%q: %s the first time, %s the second", got.raw, a, b)
			}
			got.words()
		}
	})
}
