// Package server starts a server for those who have none at hand: a
// redis-server or valkey-server found on the PATH as a child process, or
// miniredis inside this process.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Mode says which kind of server to start. It is a flag's value.
type Mode string

// The modes.
const (
	Auto     Mode = "auto"     // a real one if there is one, else the embedded one
	Embedded Mode = "embedded" // inside this process
	Real     Mode = "real"     // a child process
)

// Modes are all of them.
var Modes = []string{string(Auto), string(Embedded), string(Real)}

// Set sets the mode from a flag.
func (m *Mode) Set(text string) error {
	switch v := Mode(text); v {
	case Auto, Embedded, Real:
		*m = v
		return nil
	}
	return errors.New("it must be auto, embedded or real")
}

func (m *Mode) String() string { return string(*m) }

// Type is what --help calls the value.
func (m *Mode) Type() string { return strings.Join(Modes, "|") }

// A Server lives until Stop, and no longer than this process.
type Server struct {
	What     string // for people, such as "redis-server 7.0.15"
	URL      string
	Embedded bool
	Stop     func() // may be called again

	// Ended is closed when the server is gone, stopped or not. LastWords are then
	// the last line of a child, as the end of a sentence, or nothing.
	Ended     <-chan struct{}
	LastWords func() string
}

// Limits is what people must know about the embedded server.
const Limits = "embedded server, for trying things out: it loses its data when it stops, handles a few thousand operations per second, and has no rate limiters and no Object.Listen"

// ErrTaken says that something else listens at the address.
var ErrTaken = errors.New("address in use by another program")

// programs are looked for on the PATH in this order.
var programs = []string{"redis-server", "valkey-server"}

// Start starts a server on addr, such as 127.0.0.1:6379; port 0 is any that is
// free. It has nothing to do with any other server: where one listens already,
// Start fails with [ErrTaken].
func Start(ctx context.Context, mode Mode, addr string) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if mode != Embedded {
		for _, program := range programs {
			if path, err := exec.LookPath(program); err == nil {
				return startProgram(ctx, program, path, addr)
			}
		}
		if mode == Real {
			return nil, fmt.Errorf("no %s on the PATH: install one, or use --server embedded", strings.Join(programs, " or "))
		}
	}
	return startEmbedded(addr)
}

// listen listens at addr. Some systems let two programs do that, one of them at
// all addresses of the machine: so it asks first.
func listen(addr string) (net.Listener, error) {
	if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", addr, ErrTaken)
	}
	l, err := net.Listen("tcp", addr)
	const windows = syscall.Errno(10048) // WSAEADDRINUSE
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, windows):
		return nil, fmt.Errorf("%s: %w", addr, ErrTaken)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	return l, nil
}
