package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns v as JSON on one line. Unlike [json.Marshal] it escapes all
// characters that could control a terminal.
func JSON(v any) (string, error) {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range strings.TrimSuffix(raw.String(), "\n") {
		if r != utf8.RuneError && r > ' ' && !terminal.Harmless(r) {
			units := utf16.AppendRune(nil, r)
			for _, u := range units {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String() + "\n", nil
}
