package main_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/vt"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestNarrow checks that the output of the commands fits into a terminal with 80 columns, and
// that it still says which process holds a lock.
func TestNarrow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := "orders:" + strings.Repeat("eu-west-", 4) + "42"
	for i := range 3 {
		c, err := holdfast.Open(t.Context(), s.URL(), &holdfast.Options{Label: fmt.Sprint("checkout-of-the-shop-", i)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		lsHold(t, c.Mutex(fmt.Sprint("other:", i))) // a client that only waits says later who it is
		if i == 0 {
			lsHold(t, c.Mutex(name))
		} else {
			lsWait(t, c.Mutex(name))
		}
	}
	host, _ := os.Hostname()
	pid := fmt.Sprint("pid ", os.Getpid())
	eventually(t, "all clients have said who they are", func() bool {
		return strings.Count(execute(t, "show", name, "--url", s.URL()).out, pid+")") == 3
	})
	for _, tt := range []struct {
		args  []string
		shows string
	}{
		{[]string{"ls"}, `NAME +KIND +HELD BY +EXPIRES IN +WAITING\n(?s).*…, ` + pid + `\) `},
		{[]string{"watch", "--count", "1"}, ""},
		{[]string{"show", name}, `\n  queue     1\. [0-9a-f-]{36}:\d+\n +` + host + ` \(checkout-of-the-shop-\d, ` + pid + `\), waiting for \d+\.\ds\n +2\. `},
		{[]string{"bench", "--for", "300ms"}, `P50 ms +P90 ms +P99 ms +MAX ms\ngranted by the server .*\npassed in the process `},
		{[]string{"bench", "--for", "300ms", "--crowd", "4", "--processes", "2"}, `\nempty scripts, serial `},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			r := startTerminal(t, 80, 60, nil, append(tt.args, "--url", s.URL())...).wait(t)
			v := vt.New(80, 60)
			_, _ = v.Write([]byte(r.out))
			if r.status != 0 || v.Wrapped > 0 || !regexp.MustCompile(tt.shows).MatchString(v.Text()) {
				t.Errorf("status %d, %d lines are too long, want %q:\n%s", r.status, v.Wrapped, tt.shows, v.Text())
			}
		})
	}
	reentered, err := holdfast.Open(t.Context(), s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reentered.Close()
	lease := lsHold(t, reentered.Mutex("twice"))
	if _, err := reentered.Mutex("twice").Lock(lease.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, "ls", "--url", s.URL()).want(t, 0, `^NAME [^\n]* HOLDS\norders[^\n]* 1\n.*\ntwice[^\n]* 2\n$`, "")
}
