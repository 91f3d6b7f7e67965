package driver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Class says whether a failed call may have changed the state of the server.
type Class uint8

const (
	// Ambiguous means that the call may have run, or may still run.
	Ambiguous Class = iota
	// Definite means that the call did not run, and may succeed later.
	Definite
	// Fatal means that the server refused the call. It will fail again until
	// the configuration or the state of the server changes: permissions, the
	// type of a key, memory. A script may have written before it failed. Calls
	// on a closed driver are fatal, too.
	Fatal
)

// String returns the class in lower case.
func (c Class) String() string {
	switch c {
	case Definite:
		return "definite"
	case Fatal:
		return "fatal"
	default:
		return "ambiguous"
	}
}

// ErrClosed is the error of calls on a closed driver.
var ErrClosed = errors.New("driver is closed")

// ErrRefused is matched by the error of [Handler].Lost if the server refuses
// channels. See [Refused].
var ErrRefused = errors.New("the server refuses the subscription")

// Refused wraps the error reply of a server that refuses to subscribe to a
// channel.
func Refused(err error) error {
	return &Error{Class: ClassOf(err), Code: CodeOf(err), Err: fmt.Errorf("%w: %w", ErrRefused, err)}
}

// ErrNotRedis means that the answer did not come from Redis or Valkey.
var ErrNotRedis = errors.New("the server does not speak the Redis protocol")

// ErrNoLua means that the server cannot run scripts, because it has no Lua engine.
// Valkey since 9.1 may be built or started without it.
var ErrNoLua = errors.New("the server has no Lua engine, which all operations need")

// An Error is a failed call.
type Error struct {
	Class Class  // whether the call may have run
	Code  string // the error code of the server, such as "WRONGTYPE"; empty if the server did not answer
	Err   error  // the cause
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the error of a call. An error that is not an
// [Error] is ambiguous, because the call may have run. [ErrClosed] is fatal.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	if errors.Is(err, ErrClosed) {
		return Fatal
	}
	return Ambiguous
}

// CodeOf returns the error code of the server, or "" if there is none.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// passing contains the codes of a server that cannot serve now but may serve
// soon: it starts, fails over, moves slots, or runs a long script of another
// client.
var passing = map[string]bool{
	"LOADING": true, "READONLY": true, "CLUSTERDOWN": true, "MASTERDOWN": true,
	"TRYAGAIN": true, "MOVED": true, "ASK": true, "BUSY": true, "NOREPLICAS": true,
	"MISCONF": true, "NOSCRIPT": true,
}

// denied matches the replies, without a code, for a command in a script that
// the user lacks permission for: before Redis 7.2, and since.
var denied = regexp.MustCompile(`^(ERR )?(The user executing the script can't|ACL failure in script:)`)

// remote matches the replies, without a code, for a key that a script cannot use
// because its slot is being moved: the key has moved already, or the script has
// deleted it. The script has ended there, and may have made changes.
var remote = regexp.MustCompile(`ttempted to access a non local key in a cluster node|undeclared keys were accessed during rehashing of the slot`)

// position matches what servers append to the error of a script: its hash and the
// line since Redis 7, only the line since Valkey 9.1.
var position = regexp.MustCompile(` script: (\w+, )?on @user_script:\d+\.$`)

// ServerError returns the error for an error reply, classified by its code, the
// first word. Servers before Redis 7 put the code of a failed command of a
// script behind the name and the line of the script. ServerError extracts it.
// The text of the error has a limited length and no control characters.
func ServerError(text string) error {
	text = position.ReplaceAllLiteralString(unbury(text), "")
	text, _, _ = strings.Cut(text, ", with args beginning with:") // the arguments may be a password or user data
	if strings.HasPrefix(text, "NOAUTH") {
		text = "NOAUTH the server requires a password: add it, as in redis://:password@host"
	}
	if strings.HasPrefix(text, "READONLY You can't write against") {
		text = "READONLY the server is a read-only replica: locks need its master"
	}
	if strings.HasPrefix(text, "NOPROTO") {
		text = "NOPROTO the server has no RESP3, unlike Redis and Valkey. If it is a proxy, such as Envoy, connect to the servers behind it"
	}
	if codis.MatchString(text) {
		return ProxyError("Codis")
	}
	code, _, _ := strings.Cut(text, " ")
	if code == "" || code != strings.ToUpper(code) {
		code = "ERR"
	}
	if denied.MatchString(text) {
		code = "NOPERM"
	}
	e := &Error{Class: Fatal, Code: clip(code), Err: errors.New(clip(text))}
	switch {
	case remote.MatchString(text):
		e.Class, e.Code = Ambiguous, "TRYAGAIN"
	case passing[code]:
		e.Class = Definite
	case strings.Contains(text, "max number of clients"):
		e.Class = Definite
	case code == "UNBLOCKED":
		e.Class = Ambiguous
	}
	return e
}

var (
	missing = regexp.MustCompile(`Unknown (\w+ )?command called from (Lua )?script`)
	ofLine  = regexp.MustCompile(`@user_script: ?(\d+)`)
	called  = regexp.MustCompile(`redis\.p?call\(["'](\w+)["']`)
)

// ScriptError is [ServerError] for the error reply to a script. If the script
// calls a command that the server does not have, the server does not say which.
// The error then contains the commands in the line where the script failed. If the
// server cannot run scripts at all, the error matches [ErrNoLua].
func ScriptError(s *Script, text string) error {
	if strings.Contains(text, "Could not find scripting engine 'lua'") {
		return &Error{Class: Fatal, Code: "ERR", Err: fmt.Errorf("%w: load Valkey's module lua, as in loadmodule /path/to/libvalkeylua.so, "+
			"or install a Valkey that is built with it (BUILD_LUA=yes)", ErrNoLua)}
	}
	if !missing.MatchString(text) {
		return ServerError(text)
	}
	names := "a command"
	if m := ofLine.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		if lines := strings.Split(s.Source, "\n"); n > 0 && n <= len(lines) {
			var list []string
			for _, c := range called.FindAllStringSubmatch(lines[n-1], -1) {
				list = append(list, strings.ToUpper(c[1]))
			}
			if list != nil {
				names = strings.Join(list, " or ")
			}
		}
	}
	return &Error{Class: Fatal, Code: "ERR", Err: fmt.Errorf("the server does not have %s, which the script %s calls: "+
		"scripts cannot use a command that is renamed or disabled, so remove its rename-command from the configuration of the server", names, s.Name)}
}

// longest is the maximum number of bytes of a server message in an error.
const longest = 300

// clip shortens a server message and escapes what is not printable, because it
// goes to logs and terminals.
func clip(text string) string {
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		text = strconv.Quote(text)
		text = text[1 : len(text)-1]
	}
	return text
}

// unbury extracts the reply of a command that a script has called. The message
// may look like this. The first half may be missing if the script has returned
// the error itself:
//
//	ERR Error running script (call to f_SHA): @user_script:15: @user_script: 15: -READONLY You can't ...
func unbury(text string) string {
	said := text
	if call, rest, ok := strings.Cut(text, "): "); ok && strings.HasPrefix(strings.TrimPrefix(call, "ERR "), "Error running script (call to f_") {
		said = rest
	}
	for {
		rest, ok := strings.CutPrefix(said, "@user_script:")
		if !ok {
			return strings.TrimPrefix(said, "-")
		}
		_, said, _ = strings.Cut(rest, ": ") // the line
	}
}

// Unsent wraps the error of a call that was not sent. The result is [Definite].
func Unsent(err error) error { return &Error{Class: Definite, Err: err} }

// Unknown wraps an error if it is not known whether the call has run. The
// result is [Ambiguous]. It still matches the errors of package context.
func Unknown(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Class: Ambiguous, Err: fmt.Errorf("no answer: %w", err)}
	}
	return &Error{Class: Ambiguous, Err: fmt.Errorf("connection lost before the answer: %w", err)}
}

// ForCaller returns the error of a call with ctx for the caller. The result
// matches [context.Canceled] and [context.DeadlineExceeded] only if ctx is
// done. If the driver has ended an attempt with its own context, for example
// because of a timeout or a closed connection, the error keeps its class, code
// and text.
func ForCaller(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) || isDone(ctx) {
		return err
	}
	return &Error{Class: ClassOf(err), Code: CodeOf(err), Err: errors.New("canceled inside this client: " + err.Error())}
}

// isDone reports whether a context is done or its deadline has passed. The
// timer of a context may be late.
func isDone(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) <= 0
}
