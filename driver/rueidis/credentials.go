package rueidis

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// A Peer is the server of a new connection. Config.Credentials gets it.
type Peer struct {
	Addr     string // host:port, or the path of a socket
	Sentinel bool   // the server is a sentinel
}

// A credentialsError is the failure of Config.Credentials. Its text does not
// contain the text of the cause, since that may contain a secret.
type credentialsError struct {
	addr  string
	text  string
	cause error // nil if there is none
}

func (e *credentialsError) Error() string {
	return fmt.Sprintf("no credentials for %s: Config.Credentials %s", e.addr, e.text)
}

func (e *credentialsError) Unwrap() error { return e.cause }

// maxLogins limits how many calls of Config.Credentials run at the same time for
// one server. A call that ignores its context may run forever.
const maxLogins = 16

// credentials returns the user and the password for a new connection. If
// Config.Credentials does not return within the dial timeout, only this
// connection fails.
func (n *node) credentials(ctx context.Context) (username string, password Secret, err error) {
	if n.c.Credentials == nil {
		return n.c.Username, n.c.Password, nil
	}
	if n.logins.Add(1) > maxLogins {
		n.logins.Add(-1)
		return "", "", n.noCredentials(fmt.Sprintf("has not returned from %d earlier calls", maxLogins), nil)
	}
	type answer struct {
		username string
		password Secret
		err      error
	}
	ctx, cancel := context.WithTimeout(ctx, n.c.DialTimeout)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil { // the value may contain a secret
				a = answer{err: n.noCredentials(fmt.Sprintf("panicked with a value of type %T", v), nil)}
			}
			n.logins.Add(-1)
			answers <- a
		}()
		a.username, a.password, a.err = n.c.Credentials(ctx, Peer{n.addr, n.sentinel})
		if a.err != nil {
			a = answer{err: n.noCredentials(fmt.Sprintf("failed with an error of type %T; "+
				"the text is not shown, since it may contain a secret: log it in that function", a.err), a.err)}
		}
	}()
	select {
	case a := <-answers:
		return a.username, a.password, a.err
	case <-ctx.Done():
		if n.life.Err() != nil {
			return "", "", errReplaced
		}
		return "", "", n.noCredentials(fmt.Sprintf("did not return within %v", n.c.DialTimeout), nil)
	}
}

func (n *node) noCredentials(text string, cause error) error {
	return driver.Unsent(&credentialsError{n.addr, text, cause})
}
