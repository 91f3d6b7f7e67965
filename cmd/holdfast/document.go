package main

import (
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// printJSON prints what --json asks for: a document, on one line.
func (a *app) printJSON(v any) error {
	text, err := term.JSON(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.out, text)
	return err
}
