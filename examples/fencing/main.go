// Fencing shows what a lock alone cannot prevent, and what can: two clerks pay
// into one account of an SQL database, each a process of its own, and the first
// is stopped between its reading and its writing for longer than its lease.
//
// It needs nothing but Go, on a system where processes can be stopped. It uses
// the server at -url, else a redis-server or valkey-server on the PATH, else a
// small server inside this process.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/holdfast-go/holdfast/examples/internal/server"
)

func main() {
	runtime.LockOSThread() // what is started ends with the thread that started it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isClerk() {
		exit(clerk(ctx))
		return
	}
	url := flag.String("url", os.Getenv("HOLDFAST_URL"), "server to use, such as redis://localhost:6379 (default: start one)")
	flag.Parse()
	exit(run(ctx, *url))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	if url == "" {
		s, err := server.Start(ctx)
		if err != nil {
			return err
		}
		defer s.Stop()
		fmt.Println("server: ", s.What)
		url = s.URL
	}
	fmt.Println()
	fmt.Printf("Two clerks pay %d each into an empty account. The first is stopped for longer than its lease.\n", amount)
	bare, err := play(ctx, url, false)
	if err != nil {
		return err
	}
	fmt.Printf("  with a lock only:       the account holds %d, %d are lost\n", bare, 2*amount-bare)
	guarded, err := play(ctx, url, true)
	if err != nil {
		return err
	}
	fmt.Printf("  with lock and fencing:  the account holds %d, %d are lost; the first was refused, and paid again\n", guarded, 2*amount-guarded)
	if bare != amount || guarded != 2*amount {
		return fmt.Errorf("want %d and %d", amount, 2*amount)
	}
	return nil
}

// play lets the two clerks work and returns what is in the account afterwards.
// Each step waits for what a clerk says, so that the same happens every time.
func play(ctx context.Context, url string, guarded bool) (balance int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends clerks that are still there
	dir, err := os.MkdirTemp("", "fencing")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "bank.db")
	b, err := openBank(ctx, file, guarded)
	if err != nil {
		return 0, err
	}
	defer func() { _ = b.Close() }()
	if err := b.create(ctx); err != nil {
		return 0, err
	}

	first, err := hire(ctx, url, file, guarded)
	if err != nil {
		return 0, err
	}
	defer first.fire()
	if err := first.says("read"); err != nil {
		return 0, err
	}
	if err := pause(first.cmd.Process); err != nil {
		return 0, fmt.Errorf("stop a process: %w", err)
	}

	second, err := hire(ctx, url, file, guarded)
	if err != nil {
		return 0, err
	}
	defer second.fire()
	if err := second.says("read"); err != nil { // so it has the lock: the first one's lease is over
		return 0, err
	}
	second.write()
	if err := second.says("paid"); err != nil {
		return 0, err
	}

	first.write() // it finds this when it wakes up; not sent before, for it takes a moment to stop
	if err := resume(first.cmd.Process); err != nil {
		return 0, fmt.Errorf("resume a process: %w", err)
	}
	if guarded {
		if err := errors.Join(first.says("stale"), first.says("read")); err != nil {
			return 0, err
		}
		first.write()
	}
	if err := first.says("paid"); err != nil {
		return 0, err
	}
	return b.balance(ctx)
}

// A worker is a clerk as its employer sees it.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Writer
	lines *bufio.Scanner
	quit  context.CancelFunc
}

// hire starts this program once more, as a clerk.
func hire(ctx context.Context, url, file string, guarded bool) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = clerkEnv(url, file, guarded)
	cmd.Stderr = os.Stderr
	server.EndWithParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		quit()
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		quit()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		quit()
		return nil, err
	}
	return &worker{cmd, stdin, bufio.NewScanner(stdout), quit}, nil
}

// says waits for a word of the clerk.
func (w *worker) says(want string) error {
	switch {
	case !w.lines.Scan():
		return fmt.Errorf("a clerk has gone, expected %q", want)
	case w.lines.Text() != want:
		return fmt.Errorf("a clerk says %q, expected %q", w.lines.Text(), want)
	}
	return nil
}

// write tells the clerk to go on. If it is gone, says will tell.
func (w *worker) write() { _, _ = fmt.Fprintln(w.stdin, "write") }

// fire ends the clerk, stopped or not.
func (w *worker) fire() {
	w.quit()
	_ = w.cmd.Wait()
}
