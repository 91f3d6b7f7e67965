package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/driver"
)

// startTimeout is the limit for a child to answer.
const startTimeout = 10 * time.Second

var errEnded = errors.New("it exited immediately")

// startProgram starts a server as a child process that stores nothing on disk.
func startProgram(ctx context.Context, program, path, addr string) (*Server, error) {
	_, asked, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	for tries := 5; ; tries-- {
		s, err := tryProgram(ctx, program, path, addr)
		if errors.Is(err, errEnded) && asked == "0" && tries > 1 {
			continue // another program may have taken the free port
		}
		return s, err
	}
}

func tryProgram(ctx context.Context, program, path, addr string) (*Server, error) {
	host, port, err := freePort(addr)
	if err != nil {
		return nil, err
	}
	addr = net.JoinHostPort(host, port)
	dir, err := os.MkdirTemp("", "holdfast-server")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // without its directory the server cannot store anything on disk
	p := &process{cmd: exec.Command(path, "--port", port, "--bind", host, "--save", "", "--appendonly", "no", "--dir", dir)}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	version, err := p.awaitReady(ctx, addr)
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w%s", program, err, p.output.last())
	}
	return &Server{What: program + " " + version, URL: "redis://" + addr, Ended: p.ended, Stop: p.stop, LastWords: p.output.last}, nil
}

// freePort returns the host and the port of addr. It replaces port 0 by a free one.
func freePort(addr string) (host, port string, err error) {
	l, err := listen(addr)
	if err != nil {
		return "", "", err
	}
	defer l.Close() //nolint:errcheck // only reserved the port
	return net.SplitHostPort(l.Addr().String())
}

// A process is a server that runs as a child process.
type process struct {
	cmd    *exec.Cmd
	output tail
	ended  <-chan struct{}
}

// start starts the child.
func (p *process) start() error {
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // for output pipes that a descendant keeps open
	c, err := child.Start(p.cmd, true)
	if err != nil {
		return err
	}
	p.ended = c.Exited()
	return nil
}

// stop kills the child and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// awaitReady waits until this child answers on addr, and returns its version. It
// checks the process id, because another server may have taken the port.
func (p *process) awaitReady(ctx context.Context, addr string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		f := fetchFacts(addr)
		if f.Info["process_id"] == strconv.Itoa(p.cmd.Process.Pid) {
			if v := f.Info["valkey_version"]; v != "" {
				return v, nil
			}
			return f.Version, nil
		}
		select {
		case <-p.ended:
			return "", errEnded
		case <-ctx.Done():
			return "", fmt.Errorf("no answer on %s: %w", addr, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// fetchFacts returns the facts about the server on addr, or the zero value on an error.
func fetchFacts(addr string) (none driver.Facts) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return none
	}
	defer conn.Close() //nolint:errcheck // only read
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return none
	}
	r := bufio.NewReader(conn)
	head, err := r.ReadString('\n')
	n, notText := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil || notText != nil || n < 0 || n > 1<<20 {
		return none
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return none
	}
	return driver.NewFacts(string(text))
}

// A tail keeps the last 4096 bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(len(t.text)-4096, 0):]
	return len(b), nil
}

// last returns the last line after a colon, such as ": aborting", or "".
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}
