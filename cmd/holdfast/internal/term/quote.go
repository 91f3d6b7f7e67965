package term

import (
	"github.com/mattn/go-runewidth"

	"github.com/holdfast-go/holdfast/internal/display"
)

var (
	condition = &runewidth.Condition{StrictEmojiNeutral: true}
	terminal  = display.Medium{Width: condition.RuneWidth}
	lines     = display.Medium{Width: condition.RuneWidth, Blanks: true}
)

// Quote escapes untrusted text for one line of a terminal and cuts it to max
// columns, see [display.Medium].
func Quote(text string, max int) string { return terminal.Quote(text, max) }

// Line is [Quote] for a message that may contain untrusted text: it keeps blanks.
func Line(text string, max int) string { return lines.Quote(text, max) }

// Width returns the maximum width of text in columns.
func Width(text string) int {
	w := 0
	for _, r := range text {
		w += condition.RuneWidth(r)
	}
	return w
}
