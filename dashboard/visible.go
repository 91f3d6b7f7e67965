package dashboard

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns untrusted text for display, with at most limit characters. Control
// characters and invisible characters are written as in Go: \x1b, \u202e. So are
// combining marks, invalid UTF-8, and blanks at an end or next to another blank. A
// backslash is doubled. Different texts therefore look different, and no text changes
// the direction of its surroundings. A result that ends with … was cut.
func visible(text string, limit int) string {
	var b strings.Builder
	n, fits := 0, 0 // fits is the length of b that leaves a character for the …
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		shown := text[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			shown = `\x` + hexByte(text[i])
		case r == '\\':
			shown = `\\`
		case r == ' ':
			if i == 0 || i == len(text)-1 || text[i-1] == ' ' || text[i+1] == ' ' {
				shown = `\x20`
			}
		case !plain(r):
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		n += utf8.RuneCountInString(shown)
		if n > limit {
			return b.String()[:fits] + "…"
		}
		b.WriteString(shown)
		if n < limit {
			fits = b.Len()
		}
		i += size
	}
	return b.String()
}

func hexByte(c byte) string {
	return string([]byte{"0123456789abcdef"[c>>4], "0123456789abcdef"[c&15]})
}

// plain reports whether a browser shows r as a character of its own, from left to
// right or in its own direction.
func plain(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.M) && r != '…' && r != 0x2800 && r != 0x3164 && r != 0xffa0 && (r < 0x1160 || r > 0x11ff)
}

// credentials matches the user and password of a URL.
var credentials = regexp.MustCompile(`://[^\s/]*@`)

// errorText returns an error for display, without credentials.
func errorText(err error) string {
	return visible(credentials.ReplaceAllString(err.Error(), "://…@"), 1000)
}
