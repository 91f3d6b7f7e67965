package dashboard

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/display"
)

// visible returns untrusted text for display, with at most limit characters, see
// [display.Medium].
func visible(text string, limit int) string { return display.Medium{}.Quote(text, limit) }

// typed returns text that the user has typed, for the field in which it was typed. It
// changes only text with characters that visible escapes.
func typed(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !(display.Medium{}).Harmless(r) }) {
		return visible(text, longName)
	}
	return text
}

// credentials matches the user and password of a URL.
var credentials = regexp.MustCompile(`://[^\s/]*@`)

// errorText returns an error for display, without credentials.
func errorText(err error) string {
	return visible(credentials.ReplaceAllString(err.Error(), "://…@"), 1000)
}
