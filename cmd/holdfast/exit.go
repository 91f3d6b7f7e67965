package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// The exit statuses. `holdfast run` also passes on the status of its program.
// Programs rarely use 120 to 123; 126 and above follow the shell's convention.
const (
	failed      = 1   // the command found a problem or failed
	misused     = 2   // wrong flags or arguments; nothing was done
	notAcquired = 120 // another owner holds the lock
	lost        = 121 // the lock was lost while the program ran
	unreachable = 122 // the server does not answer or rejects the request
	noLock      = 123 // the server knows no lock of that name
	cannotRun   = 126 // the program cannot be executed
	notFound    = 127 // the program does not exist
	interrupted = 130 // Ctrl-C: 128 plus the number of the signal
)

// An exit is an error with an exit status. If err is nil, no message is printed.
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

// usage returns an error for a wrong flag or argument.
func usage(format string, args ...any) error { return &exit{misused, fmt.Errorf(format, args...)} }

// within returns an error if the value of a flag is out of range.
func within(flag string, n, low, high int) error {
	if n < low || n > high {
		return usage("--%s is %d: it must be between %d and %d", flag, n, low, high)
	}
	return nil
}

// hint adds a sentence to an error that says what to do next.
func hint(err error, next string) error { return &hinted{err, next} }

type hinted struct {
	error
	next string
}

func (h *hinted) Unwrap() error { return h.error }

// report prints an error and its hint, and returns the exit status.
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
		next = "Run " + cmd.CommandPath() + " --help for usage."
	}
	text := "holdfast: " + strings.TrimPrefix(err.Error(), "holdfast: ")
	fmt.Fprintln(a.err, harmless(redacted(text)))
	if next != "" {
		fmt.Fprintln(a.err, harmless(next))
	}
	return status
}

// credentials matches the user and password in a URL. A message may contain a URL
// that was passed as the wrong argument.
var credentials = regexp.MustCompile(`://\S*@`)

// examples are the placeholders in the command's own hints.
var examples = []string{"://user:password@", "://:password@"}

// redacted removes credentials from a message. It keeps the examples.
func redacted(text string) string {
	return credentials.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(examples, found) {
			return found
		}
		return "://...@"
	})
}

// harmless escapes the characters of a message that could control the terminal.
// Unlike [term.Quote] it keeps line breaks and backslashes.
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

// refusals maps the first word of a server's error to a hint.
var refusals = map[string]string{
	"NOAUTH":    "Set a user and a password that the server accepts: HOLDFAST_URL=redis://user:password@host:6379 (percent-encode both).",
	"WRONGPASS": "Set a user and a password that the server accepts: HOLDFAST_URL=redis://user:password@host:6379 (percent-encode both).",
	"NOPERM":    "Run holdfast doctor NAME to see which permissions the user needs for that lock.",
}

// advise returns the exit status and the hint for an error of the library.
func advise(err error) (status int, next string) {
	switch {
	case errors.Is(err, holdfast.ErrInvalid):
		return misused, ""
	case errors.Is(err, holdfast.ErrNotAcquired):
		return notAcquired, ""
	case errors.Is(err, holdfast.ErrLost):
		return lost, ""
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return unreachable, "Name the CA that signed the certificate: rediss://host:6379?tls_ca=FILE. If the certificate is for another host name, add tls_server_name=NAME."
	case errors.Is(err, driver.ErrNotRedis):
		return unreachable, "" // the error text says what to do
	case unanswered(err):
		return unreachable, "Is the server running? Set its address with --url or HOLDFAST_URL, or start a server with holdfast serve."
	case errors.Is(err, holdfast.ErrUnavailable):
		return unreachable, "" // the server has answered that it cannot serve, and why
	case errors.Is(err, holdfast.ErrRefused):
		return unreachable, refusals[driver.CodeOf(err)]
	}
	return failed, ""
}

// unanswered reports whether an error means that no server has answered.
func unanswered(err error) bool {
	var network net.Error
	return errors.Is(err, holdfast.ErrUnavailable) && driver.CodeOf(err) == "" &&
		(errors.As(err, &network) || strings.Contains(err.Error(), "no answer"))
}
