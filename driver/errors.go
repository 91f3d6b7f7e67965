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

// A Class says what an error of a call means for the state of the server.
type Class uint8

const (
	// Ambiguous means that the call may or may not have run, or may still run.
	Ambiguous Class = iota
	// Definite means that the call did not run, and may succeed later.
	Definite
	// Fatal means that the call did not run, and will not until somebody
	// changes something: rights, the type of a key, memory.
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

// ErrClosed is what calls on a closed driver fail with.
var ErrClosed = errors.New("driver is closed")

// ErrRefused is matched by the error of [Handler] Lost where the server refuses
// channels; see [Refused].
var ErrRefused = errors.New("the server refuses the subscription")

// Refused wraps the reply of a server that refuses to subscribe a channel.
func Refused(err error) error {
	return &Error{Class: ClassOf(err), Code: CodeOf(err), Err: fmt.Errorf("%w: %w", ErrRefused, err)}
}

// ErrNotRedis says that something else than Redis or Valkey has answered.
var ErrNotRedis = errors.New("the server does not speak the Redis protocol")

// An Error is a failed call.
type Error struct {
	Class Class
	Code  string // the server's error code, such as "WRONGTYPE"; empty if the server did not speak
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of a call's error. An error that is not an [Error]
// is ambiguous: what is not known to have failed may have happened.
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

// CodeOf returns the server's error code, or "".
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// passing lists the codes of a server that cannot serve now but may soon:
// it starts, fails over, moves slots or runs somebody's long script.
var passing = map[string]bool{
	"LOADING": true, "READONLY": true, "CLUSTERDOWN": true, "MASTERDOWN": true,
	"TRYAGAIN": true, "MOVED": true, "ASK": true, "BUSY": true, "NOREPLICAS": true,
	"MISCONF": true, "NOSCRIPT": true,
}

// denied matches what a server says, without a code, of a command in a script
// that the user has no right to: before Redis 7.2, and from then on.
var denied = regexp.MustCompile(`^(ERR )?(The user executing the script can't|ACL failure in script:)`)

// ServerError classes an error reply by its code, which is its first word.
// Servers before Redis 7 bury the code of a failed command inside a script
// behind the script's name and line; it is dug out. The text of the error has a
// bounded length, and no control characters.
func ServerError(text string) error {
	text = unbury(text)
	if i := strings.LastIndex(text, " script: "); i >= 0 && strings.Contains(text[i:], ", on @user_script:") {
		text = text[:i] // where in the script is of no use to anybody
	}
	text, _, _ = strings.Cut(text, ", with args beginning with:") // which may be a password, or somebody's data
	if strings.HasPrefix(text, "NOAUTH") {
		text = "NOAUTH the server requires a password: add it, as in redis://:password@host"
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
	case passing[code]:
		e.Class = Definite
	case strings.Contains(text, "max number of clients"):
		e.Class = Definite
	case code == "UNBLOCKED":
		e.Class = Ambiguous
	}
	return e
}

// longest is how many bytes of what a server says an error repeats.
const longest = 300

// clip shortens what a server says, and escapes what is not plain text: it goes
// to logs and terminals.
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

// unbury returns what a command inside a script has said. It may look like this,
// or the first half of it may be missing if the script has passed it on:
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

// Unsent wraps an error of a call that never left this process.
func Unsent(err error) error { return &Error{Class: Definite, Err: err} }

// Unknown wraps an error that leaves open whether the call ran. The errors of
// a context stay matchable.
func Unknown(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Class: Ambiguous, Err: fmt.Errorf("no answer: %w", err)}
	}
	return &Error{Class: Ambiguous, Err: fmt.Errorf("connection lost before the answer: %w", err)}
}

// ForCaller returns the error of a call with ctx as the caller may see it: it
// matches [context.Canceled] and [context.DeadlineExceeded] only if ctx is done.
// Where a driver has ended an attempt by a context of its own, because it closed
// a connection or had no more patience, the error keeps its class, code and text.
func ForCaller(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) || isDone(ctx) {
		return err
	}
	return &Error{Class: ClassOf(err), Code: CodeOf(err), Err: errors.New("canceled inside this client: " + err.Error())}
}

// isDone reports whether a context is done, or will be when its timer, which may
// be late, has run.
func isDone(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) <= 0
}
