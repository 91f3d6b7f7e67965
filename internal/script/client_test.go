package script_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func lookAtClient(ctx context.Context, d driver.Driver, name string) error {
	r, err := d.Do(ctx, script.LookAtClient(name))
	if err != nil {
		return err
	}
	_, _, err = script.DecodeClient(r)
	return err
}

var clientRows = []row{
	{
		title: "client/known",
		given: []string{`SET holdfast:client:N {"pid":7}`},
		do:    lookAtClient, reply: `"{\"pid\":7}"`,
		state: []string{`holdfast:client:N string {"pid":7}`},
	},
	{title: "client/unknown", do: lookAtClient, reply: "nil"},
	{
		title: "client/a key of another type",
		given: []string{"RPUSH holdfast:client:N x"},
		do:    lookAtClient, reply: "nil",
		state: []string{"holdfast:client:N list x"},
	},
	{
		title: "client/too long",
		given: []string{"SET holdfast:client:N " + strings.Repeat("x", 2049)},
		do:    lookAtClient, reply: "nil",
		state: []string{"holdfast:client:N string " + strings.Repeat("x", 2049)},
	},
}

// A client that is announced is found until it is withdrawn or its time is over.
func TestClients(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	do := func(c driver.Call) driver.Reply {
		t.Helper()
		r, err := d.Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const id = "0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d"
	want := script.Client{Host: "api-7f9", PID: 12, Program: "api", Version: "v1.2.3", Pod: "p", Label: "blue", Library: "holdfast", Since: 1700000000000}
	do(want.Announce(id, time.Minute))
	if got, ok, err := script.DecodeClient(do(script.LookAtClient(id))); err != nil || !ok || got != want {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	if ttl := s.Do(t, "PTTL", "holdfast:client:"+id).(int64); ttl < 50_000 || ttl > 60_000 {
		t.Errorf("TTL %d", ttl)
	}
	_, found, err := script.ClientWalk().Step(t.Context(), d, script.Routes(d)[0], "0", 1000)
	if err != nil || len(found) != 1 || found[0] != id {
		t.Errorf("found %v %v", found, err)
	}
	do(script.Withdraw(id))
	if !redistest.Poll(10*time.Second, func() bool {
		_, ok, err := script.DecodeClient(do(script.LookAtClient(id)))
		return err == nil && !ok
	}) {
		t.Error("the client is there after Withdraw")
	}

	// What a client says is printed in one line, by others.
	hostile := script.Client{Host: "a\n\x1b[31mb\xff", Label: strings.Repeat("ä", 1000)}
	do(hostile.Announce(id, time.Minute))
	got, _, _ := script.DecodeClient(do(script.LookAtClient(id)))
	if got.Host != "a[31mb" || len(got.Label) != 128 {
		t.Errorf("%q, %d bytes", got.Host, len(got.Label))
	}
	for _, text := range []string{"x", `{"pid":"x"}`, `[]`, `{"host":"` + "\\u0000\\u202e" + `x"}`} {
		s.Do(t, "SET", "holdfast:client:"+id, text)
		got, _, err := script.DecodeClient(do(script.LookAtClient(id)))
		if err != nil || got.Host != "" && got.Host != "x" {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
}

func TestClientOf(t *testing.T) {
	for owner, want := range map[string]string{
		"0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d:42": "0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d",
		"a:1": "a", "": "", "a": "", ":1": "", "a:": "", "a:x": "", "x:1": "", "a:1:2": "", "a*:1": "",
		strings.Repeat("a", 65) + ":1": "",
	} {
		if got := script.ClientOf(owner); got != want {
			t.Errorf("%q: %q", owner, got)
		}
	}
}
