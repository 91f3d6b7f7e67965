package term

import (
	"bytes"
	"encoding/json"
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
	return terminal.JSON(raw.String()), nil
}
