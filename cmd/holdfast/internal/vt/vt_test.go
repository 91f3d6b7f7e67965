package vt

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestScreen(t *testing.T) {
	for _, tt := range []struct{ in, text string }{
		{"one\r\ntwo", "one\ntwo\n"},
		{"one\rT", "Tne\n"},
		{"one\r\x1b[Ktwo", "two\n"},
		{"a\r\nb\r\nc\x1b[A\x1b[A\rx\x1b[J", "x\n"},
		{"\x1b[1;31mred\x1b[0m", "red\n"},
		{"日本x", "日本x\n"},
		{"abcdefghijkl", "abcdefghij\nkl\n"},
		{"1\r\n2\r\n3\r\n4", "2\n3\n4\n"},
		{"\x1b[?1049hgone\x1b[?1049l", "\n"},
		{"\x1b[2;3Hx", "\n  x\n"},
	} {
		s := New(10, 3)
		for i := range len(tt.in) { // however it arrives
			_, _ = s.Write([]byte(tt.in[i : i+1]))
		}
		if got := s.Text(); got != tt.text || len(s.Strange) > 0 {
			t.Errorf("%q shows %q, want %q; strange: %q", tt.in, got, tt.text, s.Strange)
		}
	}
	s := New(10, 3)
	_, _ = s.Write([]byte("\x1b]0;title\x07\x1b[5n\t\u0301"))
	if len(s.Strange) != 5 { // ESC ], BEL, the question, the tab, the mark
		t.Errorf("strange: %q", s.Strange)
	}
}

func TestSVG(t *testing.T) {
	s := New(20, 3)
	_, _ = s.Write([]byte("\x1b[31m<b>&\x1b[0m plain"))
	one := s.Frame(time.Second)
	_, _ = s.Write([]byte("\r\nmore"))
	svg := SVG("watch", one, s.Frame(2*time.Second))
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"&lt;b&gt;&amp;", "fill:#ff7b72", "more", "33.333%", `<g id="f0">`, `<g id="f1" visibility="hidden">`, "prefers-reduced-motion"} {
		if !strings.Contains(svg, want) {
			t.Errorf("there is no %q in\n%s", want, svg)
		}
	}
}
