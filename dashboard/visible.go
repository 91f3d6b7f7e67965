package dashboard

import (
	"regexp"

	"github.com/holdfast-go/holdfast/internal/display"
)

// visible returns untrusted text for display, with at most limit characters, see
// [display.Medium].
func visible(text string, limit int) string { return display.Medium{}.Quote(text, limit) }

// credentials matches the user and password of a URL.
var credentials = regexp.MustCompile(`://[^\s/]*@`)

// errorText returns an error for display, without credentials.
func errorText(err error) string {
	return visible(credentials.ReplaceAllString(err.Error(), "://…@"), 1000)
}
