package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestServerError(t *testing.T) {
	t.Parallel()
	const before7 = "ERR Error running script (call to f_09297c5e21e110c451feb451f6efeb82363890bb): @user_script:15: "
	for _, tt := range []struct {
		text, code string
		class      Class
		shown      string
	}{
		{"READONLY You can't write against a read only replica. script: f_09, on @user_script:15.", "READONLY", Definite, "READONLY the server is a read-only replica: locks need its master"},
		{before7 + "@user_script: 15: -READONLY You can't write against a read only slave.", "READONLY", Definite, "READONLY the server is a read-only replica: locks need its master"},
		{before7[len("ERR "):] + "@user_script: 15: -OOM command not allowed.", "OOM", Fatal, "OOM command not allowed."},
		{"@user_script: 15: -OOM command not allowed.", "OOM", Fatal, "OOM command not allowed."},
		{before7 + "The user executing the script can't run this command", "NOPERM", Fatal, "The user executing the script can't run this command"},
		{"The user executing the script can't run this command script: 0929, on @user_script:1.", "NOPERM", Fatal, "The user executing the script can't run this command"},
		{"ERR ACL failure in script: No permissions to access a key script: 0929, on @user_script:1.", "NOPERM", Fatal, "ERR ACL failure in script: No permissions to access a key"},
		{"ACL failure in script: User u has no permissions to run the 'get' command", "NOPERM", Fatal, "ACL failure in script: User u has no permissions to run the 'get' command"},
		{before7 + "WRONGTYPE Operation against a key", "WRONGTYPE", Fatal, "WRONGTYPE Operation against a key"},
		{before7 + "attempt to index a nil value", "ERR", Fatal, "attempt to index a nil value"},
		{"ERR unknown command 'x', with args beginning with: 'secret'", "ERR", Fatal, "ERR unknown command 'x'"},
		{"ERR max number of clients reached", "ERR", Definite, "ERR max number of clients reached"},
		{"UNBLOCKED client", "UNBLOCKED", Ambiguous, "UNBLOCKED client"},
		{"something else", "ERR", Fatal, "something else"},
		{"", "ERR", Fatal, ""},
	} {
		err := ServerError(tt.text)
		if CodeOf(err) != tt.code || ClassOf(err) != tt.class || err.Error() != tt.shown {
			t.Errorf("%q is %s, %v, %q", tt.text, CodeOf(err), ClassOf(err), err)
		}
	}
}

// overdue is a context whose deadline has passed, and whose timer is late.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestForCaller(t *testing.T) {
	alive, done := context.Background(), func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}()
	later, cancel := context.WithTimeout(alive, time.Hour)
	defer cancel()
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		for _, err := range []error{cause, Unsent(cause), Unknown(cause), &Error{Class: Fatal, Code: "X", Err: cause}} {
			for _, ctx := range []context.Context{alive, later} {
				got := ForCaller(ctx, err)
				if errors.Is(got, cause) || ClassOf(got) != ClassOf(err) || CodeOf(got) != CodeOf(err) || !strings.Contains(got.Error(), cause.Error()) {
					t.Errorf("the caller's context is alive: %v becomes %v (%v, %q)", err, got, ClassOf(got), CodeOf(got))
				}
			}
			for _, ctx := range []context.Context{done, overdue{alive}} {
				if got := ForCaller(ctx, err); !errors.Is(got, cause) {
					t.Errorf("the caller's context is done: %v becomes %v", err, got)
				}
			}
		}
	}
	if err := errors.New("other"); !errors.Is(ForCaller(alive, err), err) || ForCaller(alive, nil) != nil {
		t.Error("an error that is not of a context was changed")
	}
}

// However much a server says, an error repeats a bounded part of it, on one line.
func TestServerErrorIsBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"ERR " + strings.Repeat("x", 5<<20),
		strings.Repeat("X", 5<<20),
		"ERR " + strings.Repeat("é", 5<<20),
		"ERR two\nlines\x1b[2J\xff",
		"ERR " + strings.Repeat("\x00", 5<<20),
	} {
		err := ServerError(text)
		said := err.Error()
		if len(said) > 4*longest+10 || len(CodeOf(err)) > longest+3 || !utf8.ValidString(said) || strings.ContainsAny(said, "\n\x1b\x00") {
			t.Errorf("%.20q has an error of %d bytes: %.400q", text, len(said), said)
		}
	}
}

// The error of a script names the command that the server does not have.
func TestMissingCommand(t *testing.T) {
	t.Parallel()
	s := NewScript("some", "local n = 1\nif redis.call('exists', KEYS[1]) == 1 then redis.pcall('pexpire', KEYS[1], n) end\nreturn redis.call(ARGV[1])")
	for text, want := range map[string]string{
		"ERR Unknown Redis command called from script script: abc, on @user_script:2.":                                            "does not have EXISTS or PEXPIRE, which the script some calls",
		"Unknown Redis command called from script script: abc, on @user_script:2.":                                                "does not have EXISTS or PEXPIRE",
		"ERR Error running script (call to f_abc): @user_script:2: @user_script: 2: Unknown Redis command called from Lua script": "does not have EXISTS or PEXPIRE",
		"ERR Unknown command called from script script: abc, on @user_script:2.":                                                  "does not have EXISTS or PEXPIRE",
		"ERR Unknown Redis command called from script script: abc, on @user_script:3.":                                            "does not have a command, which",
		"ERR Unknown Redis command called from script script: abc, on @user_script:300.":                                          "does not have a command, which",
		"ERR Unknown Redis command called from script":                                                                            "does not have a command, which",
		"WRONGTYPE Operation against a key":                                                                                       "WRONGTYPE Operation",
	} {
		err := ScriptError(s, text)
		if !strings.Contains(err.Error(), want) || ClassOf(err) != Fatal {
			t.Errorf("%q becomes %v (%v), want %q", text, err, ClassOf(err), want)
		}
	}
}
