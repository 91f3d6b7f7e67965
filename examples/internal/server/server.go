// Package server gives the examples a server to talk to.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A Server is one that lives as long as this program.
type Server struct {
	What string // for people
	URL  string
	Stop func()
}

// Start starts a server on loopback: a real one if there is one on the
// PATH, else one inside this process.
func Start(ctx context.Context) (*Server, error) {
	for _, program := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		return startProgram(ctx, program, path)
	}
	return StartEmbedded()
}

func startProgram(ctx context.Context, program, path string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	for range 200 {
		if err := ctx.Err(); err != nil {
			stop()
			return nil, err
		}
		conn, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err == nil {
			_ = conn.Close()
			return &Server{program, "redis://" + addr.String(), stop}, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return nil, fmt.Errorf("%s does not answer", program)
}

// StartEmbedded runs miniredis. Its clock is moved by hand, every few
// milliseconds, so that it stands still while a script runs.
func StartEmbedded() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	m.SetTime(time.Now())
	if err := m.Start(); err != nil {
		return nil, err
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case now := <-ticker.C:
				m.SetTime(now)
			case <-done:
				return
			}
		}
	}()
	return &Server{
		"embedded, for this demonstration only (no redis-server on the PATH)",
		"redis://" + m.Addr(),
		sync.OnceFunc(func() {
			ticker.Stop()
			close(done)
			m.Close()
		}),
	}, nil
}
