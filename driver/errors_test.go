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
		{before7 + "@user_script: 15: -READONLY You can't write against a read only slave.", "READONLY", Definite, "READONLY the server is a read-only replica: locks need its master"},
		{before7[len("ERR "):] + "@user_script: 15: -OOM command not allowed.", "OOM", Fatal, "OOM command not allowed."},
		{"@user_script: 15: -OOM command not allowed.", "OOM", Fatal, "OOM command not allowed."},
		{before7 + "The user executing the script can't run this command", "NOPERM", Fatal, "The user executing the script can't run this command"},
		{"The user executing the script can't run this command script: 0929, on @user_script:1.", "NOPERM", Fatal, "The user executing the script can't run this command"},
		{"ERR ACL failure in script: No permissions to access a key script: 0929, on @user_script:1.", "NOPERM", Fatal, "ERR ACL failure in script: No permissions to access a key"},
		{"ACL failure in script: User u has no permissions to run the 'get' command", "NOPERM", Fatal, "ACL failure in script: User u has no permissions to run the 'get' command"},
		{"ERR unknown command 'x', with args beginning with: 'secret'", "ERR", Fatal, "ERR unknown command 'x'"},
		{"ERR max number of clients reached", "ERR", Definite, "ERR max number of clients reached"},
		{"UNBLOCKED client", "UNBLOCKED", Ambiguous, "UNBLOCKED client"},
		{"Script attempted to access a non local key in a cluster node script: 0929, on @user_script:14.", "TRYAGAIN", Ambiguous, "Script attempted to access a non local key in a cluster node"},
		{before7 + "Lua script attempted to access a non local key in a cluster node", "TRYAGAIN", Ambiguous, "Lua script attempted to access a non local key in a cluster node"},
		{"Attempted to access a non local key in a cluster node script: on @user_script:14.", "TRYAGAIN", Ambiguous, "Attempted to access a non local key in a cluster node"},
		{
			"Unable to execute command 'unlink' in script because undeclared keys were accessed during rehashing of the slot script: 0929, on @user_script:14.", "TRYAGAIN", Ambiguous,
			"Unable to execute command 'unlink' in script because undeclared keys were accessed during rehashing of the slot",
		},
		{"something else", "ERR", Fatal, "something else"},
		{"", "ERR", Fatal, ""},
	} {
		err := ServerError(tt.text)
		if CodeOf(err) != tt.code || ClassOf(err) != tt.class || err.Error() != tt.shown {
			t.Errorf("%q is %s, %v, %q", tt.text, CodeOf(err), ClassOf(err), err)
		}
	}
}

// The same failure has the same error on all servers. These are the replies of
// Redis 6.2.14, 7.0.15, 8.0.6, Valkey 8.1.1 and 9.1.2 to the same script.
func TestServerErrorOfEveryServer(t *testing.T) {
	t.Parallel()
	const (
		redis6  = "ERR Error running script (call to f_40edf2dad7c0ab60b8b87c8025f403fbaec6da56): @user_script:1: "
		redis7  = " script: 40edf2dad7c0ab60b8b87c8025f403fbaec6da56, on @user_script:1."
		valkey9 = " script: on @user_script:1."
	)
	for _, tt := range []struct {
		shown, code string
		class       Class
		texts       []string
	}{
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE", Fatal, []string{
			redis6 + "WRONGTYPE Operation against a key holding the wrong kind of value",
			"WRONGTYPE Operation against a key holding the wrong kind of value" + redis7,
			"WRONGTYPE Operation against a key holding the wrong kind of value" + valkey9,
			"WRONGTYPE Operation against a key holding the wrong kind of value", // redis.pcall
		}},
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM", Fatal, []string{
			redis6 + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
			"OOM command not allowed when used memory > 'maxmemory'." + redis7,
			"OOM command not allowed when used memory > 'maxmemory'." + valkey9,
		}},
		{"READONLY the server is a read-only replica: locks need its master", "READONLY", Definite, []string{
			redis6 + "@user_script: 1: -READONLY You can't write against a read only replica.",
			"READONLY You can't write against a read only replica." + redis7,
			"READONLY You can't write against a read only replica." + valkey9,
		}},
		{"NOREPLICAS Not enough good replicas to write.", "NOREPLICAS", Definite, []string{
			redis6 + "@user_script: 1: -NOREPLICAS Not enough good replicas to write.",
			"NOREPLICAS Not enough good replicas to write." + redis7,
			"NOREPLICAS Not enough good replicas to write." + valkey9,
		}},
		{"The user executing the script can't run this command or subcommand", "NOPERM", Fatal, []string{
			redis6 + "@user_script: 1: The user executing the script can't run this command or subcommand",
		}},
		{"ERR The user executing the script can't run this command or subcommand", "NOPERM", Fatal, []string{
			"ERR The user executing the script can't run this command or subcommand" + redis7,
		}},
		{"ERR ACL failure in script: User u has no permissions to run the 'get' command", "NOPERM", Fatal, []string{
			"ERR ACL failure in script: User u has no permissions to run the 'get' command" + redis7,
			"ERR ACL failure in script: User u has no permissions to run the 'get' command" + valkey9,
		}},
		{"ERR value is not an integer or out of range", "ERR", Fatal, []string{
			redis6 + "ERR value is not an integer or out of range",
			"ERR value is not an integer or out of range" + redis7,
			"ERR value is not an integer or out of range" + valkey9,
		}},
		// A bug in a script keeps the position that Lua reports.
		{"ERR user_script:2: attempt to index local 'x' (a nil value)", "ERR", Fatal, []string{
			"ERR user_script:2: attempt to index local 'x' (a nil value)" + redis7,
			"ERR user_script:2: attempt to index local 'x' (a nil value)" + valkey9,
		}},
		{"user_script:2: attempt to index local 'x' (a nil value)", "ERR", Fatal, []string{
			redis6 + "user_script:2: attempt to index local 'x' (a nil value)",
		}},
		// What a script says itself is kept.
		{"MY text script: x, on @user_script:1. more", "MY", Fatal, []string{"MY text script: x, on @user_script:1. more"}},
	} {
		for _, text := range tt.texts {
			err := ServerError(text)
			if CodeOf(err) != tt.code || ClassOf(err) != tt.class || err.Error() != tt.shown {
				t.Errorf("%q is %s, %v, %q", text, CodeOf(err), ClassOf(err), err)
			}
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
		"ERR Unknown command called from script script: on @user_script:2.":                                                       "does not have EXISTS or PEXPIRE",
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

// Valkey since 9.1 sends this if its module lua is not loaded.
func TestNoLua(t *testing.T) {
	t.Parallel()
	err := ScriptError(NewScript("some", "return 1"), "ERR Could not find scripting engine 'lua'")
	if !errors.Is(err, ErrNoLua) || ClassOf(err) != Fatal || !strings.Contains(err.Error(), "loadmodule") {
		t.Errorf("%v (%v)", err, ClassOf(err))
	}
}
