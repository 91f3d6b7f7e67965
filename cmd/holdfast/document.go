package main

import (
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/internal/display"
)

// printJSON prints v as JSON on one line.
func (a *app) printJSON(v any) error {
	text, err := term.JSON(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.out, text)
	return err
}

// plural returns n with the noun in singular or plural.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return display.Thousands(n) + " " + what + "s"
}
