// Package display writes untrusted text and numbers for people, on terminals and in browsers.
package display

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Medium shows text.
type Medium struct {
	// Width returns the columns that a printable character takes, 0 if it is not shown as
	// a character of its own. Nil: each takes one.
	Width func(r rune) int
	// Blanks are kept, because the text is a message and not a name.
	Blanks bool
}

// Quote escapes untrusted text for one line, and cuts it to max columns. Control
// characters and invisible characters are written as in Go: \x1b, \u202e. So are
// combining marks, invalid UTF-8, and blanks at an end or next to another blank. A
// backslash is doubled. Different texts therefore look different, and no text changes
// the direction of its surroundings. A result that ends with … was cut.
func (m Medium) Quote(text string, max int) string {
	if max <= 0 {
		return ""
	}
	var b strings.Builder
	columns, fits := 0, 0 // fits is the length of b that leaves a column for the …
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		shown := text[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			shown = `\x` + hex(text[i])
		case r == '\\':
			shown = `\\`
		case r == ' ':
			if !m.Blanks && !between(text, i) {
				shown = `\x20`
			}
		case !m.Harmless(r):
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		for _, r := range shown {
			columns += m.width(r)
		}
		if columns > max {
			return b.String()[:fits] + "…"
		}
		b.WriteString(shown)
		if columns < max {
			fits = b.Len()
		}
		i += size
	}
	return b.String()
}

func hex(c byte) string { return string([]byte{"0123456789abcdef"[c>>4], "0123456789abcdef"[c&15]}) }

// between reports whether text[i] has a non-blank on each side.
func between(text string, i int) bool {
	return i > 0 && i < len(text)-1 && text[i-1] != ' ' && text[i+1] != ' '
}

func (m Medium) width(r rune) int {
	if m.Width == nil {
		return 1
	}
	return m.Width(r)
}

// Harmless reports whether the medium shows r as a character of its own with its width.
func (m Medium) Harmless(r rune) bool {
	return r < utf8.RuneSelf && r >= ' ' && r != 0x7f ||
		r >= utf8.RuneSelf && unicode.IsPrint(r) && !unicode.In(r, unicode.M, ambiguous) && m.width(r) > 0
}

// JSON escapes in a JSON text the characters that Quote escapes. Decoders return the same values.
func (m Medium) JSON(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if r == utf8.RuneError || r <= ' ' || m.Harmless(r) { // JSON has no raw control characters but blanks between values
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// ambiguous lists printable characters that some media join with their neighbours,
// characters that look like a blank, and the … that marks a cut.
var ambiguous = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0e33, 0x0e33, 1}, {0x0eb3, 0x0eb3, 1}, // vowels of Thai and Lao
		{0x1100, 0x11ff, 1},                      // parts of Hangul syllables
		{0x2026, 0x2026, 1},                      // …
		{0x2800, 0x2800, 1}, {0x3164, 0x3164, 1}, // blanks
		{0xa960, 0xa97f, 1}, {0xd7b0, 0xd7ff, 1}, // parts of Hangul syllables
		{0xff9e, 0xffa0, 1}, // marks of Katakana, and a blank
	},
	R32: []unicode.Range32{
		{0x1f1e6, 0x1f1ff, 1}, // two of these form a flag
		{0x1f3fb, 0x1f3ff, 1}, // skin tones
	},
}

// Thousands writes 12345 as 12,345.
func Thousands[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
