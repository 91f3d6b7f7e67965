package script_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// What is stored about a deadlock is untrusted: lists are cut, and what cannot be of a client
// is left out.
func TestDecodeDeadlock(t *testing.T) {
	many := func(element string) string { return "[" + strings.Repeat(element+",", 99) + element + "]" }
	for title, tt := range map[string]struct {
		text         string
		waits, holds int
	}{
		"none":             {``, 0, 0},
		"null":             {`{"id":"1","waits":null}`, 0, 0},
		"not a list":       {`{"id":"1","waits":{}}`, 0, 0},
		"not waits":        {`{"id":"1","waits":[1]}`, 0, 0},
		"without an id":    {`{"waits":[{"id":"a"}]}`, 0, 0},
		"waits without id": {`{"id":"1","waits":` + many(`{}`) + `}`, 0, 0},
		"one of them":      {`{"id":"1","waits":[{},{"id":"a"}]}`, 1, 0},
		"many":             {`{"id":"1","waits":` + many(`{"id":"a"}`) + `}`, 32, 0},
		"locks":            {`{"id":"1","waits":[{"id":"a","holds":` + many(`{"name":"a"}`) + `}]}`, 1, 32},
		"null locks":       {`{"id":"1","waits":[{"id":"a","holds":null}]}`, 1, 0},
		"a long name":      {`{"id":"1","waits":[{"id":"a","holds":[{"name":"` + strings.Repeat("x", script.MaxName+1) + `"},{"name":"b"}]}]}`, 1, 1},
		"a long owner":     {`{"id":"1","waits":[{"id":"a","holds":[{"owner":"` + strings.Repeat("x", script.MaxName+1) + `"}]}]}`, 1, 0},
	} {
		d, ok, err := script.DecodeDeadlock(driver.Reply{Type: driver.Str, Str: tt.text})
		if err != nil || ok != (tt.waits > 0) || ok && (len(d.Waits) != tt.waits || len(d.Waits[0].Holds) != tt.holds) {
			t.Errorf("%s: %v, %v, %.200v", title, ok, err, d)
		}
	}
}
