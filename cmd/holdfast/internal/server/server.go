// Package server starts a temporary server: redis-server or valkey-server from the
// PATH as a child process, or a server in memory inside this process.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Mode is the kind of server to start. It implements pflag.Value.
type Mode string

// The modes.
const (
	Auto     Mode = "auto"     // a real server if installed, else the embedded one
	Embedded Mode = "embedded" // inside this process
	Real     Mode = "real"     // a child process
)

// Modes lists all modes.
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

// Type returns the placeholder of the value in --help.
func (m *Mode) Type() string { return strings.Join(Modes, "|") }

// A Server is a running server. It ends with Stop, or with this process.
type Server struct {
	What     string // name and version, such as "redis-server 7.0.15"
	URL      string
	Embedded bool
	Stop     func() // may be called more than once

	// Ended is closed when the server has ended for any reason. LastWords then
	// returns the last line of its output after ": ", or "".
	Ended     <-chan struct{}
	LastWords func() string

	// SetLogger sets the logger for warnings about clients of an embedded server.
	// It is nil for a program, which has a log of its own.
	SetLogger func(*slog.Logger)
}

// Limits describes the limits of the embedded server, for messages.
const Limits = "embedded server, for trying things out: it loses its data when it stops, and handles a few thousand operations per second"

// ErrTaken means that another program listens on the address.
var ErrTaken = errors.New("address in use by another program")

// programs lists the server programs in order of preference.
var programs = []string{"redis-server", "valkey-server"}

// Start starts a server on addr, such as 127.0.0.1:6379; port 0 takes a free port.
// It returns [ErrTaken] if another program listens on addr.
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

// listen listens on addr. It first tries to connect, because some systems let two
// programs listen on one port, one of them on all addresses of the machine.
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
