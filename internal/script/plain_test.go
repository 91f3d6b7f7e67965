package script_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

func lookAtPlain(ctx context.Context, d driver.Driver, name string) error {
	r, err := d.Do(ctx, script.LookAtPlain(name))
	if err == nil {
		_, _, err = script.DecodePlain(r)
	}
	return err
}

var plainRows = []row{
	{title: "plain/free", do: lookAtPlain, reply: "held past"},
	{
		title: "plain/held",
		given: []string{"SET N token PX 60000"},
		do:    lookAtPlain, reply: "held 60s", state: []string{"N string token, TTL 60s"},
	},
	{
		title: "plain/data", // without a TTL it is no lock
		given: []string{"SET N x"},
		do:    lookAtPlain, reply: "nil", state: []string{"N string x"},
	},
	{
		title: "plain/a lock of ours",
		given: []string{"HSET N a:1 1", "EXPIRE N 60"},
		do:    lookAtPlain, reply: "held past", state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "plain/a list with a TTL",
		given: []string{"RPUSH N x", "EXPIRE N 60"},
		do:    lookAtPlain, reply: "nil", state: []string{"N list x, TTL 60s"},
	},
}

func TestPlain(t *testing.T) { check(t, plainRows) }
