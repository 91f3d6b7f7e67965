package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// The exit statuses. Those of a program that `holdfast run` has run are its
// own; 120 to 122 are rarely used by others, 126 and up are the shell's.
const (
	failed      = 1   // the command has found something bad, or could not do its work
	misused     = 2   // wrong flags or arguments: nothing was done
	notAcquired = 120 // somebody else has the lock
	lost        = 121 // the lock was lost while the program ran
	unreachable = 122 // the server does not answer, or refuses
	cannotRun   = 126 // the program cannot be executed
	notFound    = 127 // there is no such program
	interrupted = 130 // by Ctrl-C: 128 and the number of the signal
)

// An exit is an error that knows its status. One without an error says nothing:
// all has been said.
type exit struct {
	status int
	err    error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit status ", e.status)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage returns the error of a wrong flag or argument.
func usage(format string, args ...any) error { return &exit{misused, fmt.Errorf(format, args...)} }

// within refuses the value of a flag that is out of bounds.
func within(flag string, n, low, high int) error {
	if n < low || n > high {
		return usage("--%s is %d: choose between %d and %d", flag, n, low, high)
	}
	return nil
}

// hint adds to an error what to do next, a sentence.
func hint(err error, next string) error { return &hinted{err, next} }

type hinted struct {
	error
	next string
}

func (h *hinted) Unwrap() error { return h.error }

// report prints an error, says what to do next, and returns the exit status.
func (a *app) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	status, next := advise(err)
	var e *exit
	if errors.As(err, &e) {
		if e.err == nil {
			return e.status
		}
		status = e.status
	}
	var h *hinted
	switch {
	case errors.As(err, &h):
		next = h.next
	case status == misused && next == "":
		next = cmd.CommandPath() + " --help says how to use it."
	}
	text := "holdfast: " + strings.TrimPrefix(err.Error(), "holdfast: ")
	fmt.Fprintln(a.err, harmless(redacted(text)))
	if next != "" {
		fmt.Fprintln(a.err, harmless(next))
	}
	return status
}

// credentials are what stands before the host in a URL, which may be part of a
// message where somebody has typed it in the wrong place.
var credentials = regexp.MustCompile(`://\S*@`)

// examples are what our own advice puts there.
var examples = []string{"://user:password@", "://:password@"}

// redacted returns a message without credentials. The examples of our own advice
// stay readable.
func redacted(text string) string {
	return credentials.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(examples, found) {
			return found
		}
		return "://...@"
	})
}

// harmless returns a message, in which there may be something from a stranger,
// such that it says nothing to the terminal. Unlike [term.Quote] it leaves lines
// and backslashes as they are.
func harmless(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// refusals are what to do when a server refuses, by the first word of its error.
var refusals = map[string]string{
	"NOAUTH":    "Give a user and a password that it knows: HOLDFAST_URL=redis://user:password@host:6379, both percent-encoded.",
	"WRONGPASS": "Give a user and a password that it knows: HOLDFAST_URL=redis://user:password@host:6379, both percent-encoded.",
	"NOPERM":    "holdfast doctor NAME says which rights a user of that lock needs.",
}

// advise says what an error of the library means here.
func advise(err error) (status int, next string) {
	switch {
	case errors.Is(err, holdfast.ErrInvalid):
		return misused, ""
	case errors.Is(err, holdfast.ErrNotAcquired):
		return notAcquired, ""
	case errors.Is(err, holdfast.ErrLost):
		return lost, ""
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return unreachable, "Name the authority that has signed the certificate: rediss://host:6379?tls_ca=FILE; and with tls_server_name=NAME whose it is, if that is not the host."
	case errors.Is(err, driver.ErrNotRedis):
		return unreachable, "" // the error says what to change
	case errors.Is(err, holdfast.ErrUnavailable):
		return unreachable, "Is the server there? Name it with --url or HOLDFAST_URL, or start one with holdfast serve."
	case errors.Is(err, holdfast.ErrRefused):
		return unreachable, refusals[driver.CodeOf(err)]
	}
	return failed, ""
}
