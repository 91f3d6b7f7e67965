package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	switch redistest.WorkerName() {
	case "":
		os.Exit(m.Run())
	case "echo":
		lines := bufio.NewScanner(os.Stdin)
		fmt.Println("ready", os.Getenv("GREETING"))
		for lines.Scan() && lines.Text() != "quit" {
			fmt.Println("echo", lines.Text())
		}
		fmt.Print("bye")
		fmt.Fprintln(os.Stderr, "a word on stderr")
		os.Exit(3)
	case "deployment":
		fmt.Println(redistest.Shared(orphan{}).URL())
		select {}
	case "clock":
		fmt.Println(redistest.Now())
	case "stalls":
		stallWorker()
	case "server":
		tb := orphan{dir: os.Getenv("DIR")}
		fmt.Println(redistest.Start(tb).Addr())
		select {}
	}
}

// orphan is the test of a process that will not live to clean up.
type orphan struct {
	testing.TB
	dir string
}

func (orphan) Helper()           {}
func (orphan) Cleanup(func())    {}
func (o orphan) TempDir() string { return o.dir }
func (orphan) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func TestWorker(t *testing.T) {
	redistest.CheckGoroutines(t)
	w := redistest.Worker(t, "echo", "GREETING=hello")
	want := func(line string) {
		t.Helper()
		if got := await(t, w.Lines(), line); got != line {
			t.Fatalf("line %q, want %q", got, line)
		}
	}
	want("ready hello")
	w.Send("one")
	want("echo one")
	w.Pause()
	w.Send("two")
	select {
	case line := <-w.Lines():
		t.Errorf("a paused worker wrote %q", line)
	case <-time.After(silence):
	}
	w.Resume()
	want("echo two")
	w.Send("quit")
	want("bye")
	if _, ok := <-w.Lines(); ok {
		t.Error("lines after the end")
	}
	var exit *exec.ExitError
	if err := w.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("worker ended with %v, want status 3", err)
	}
}

func TestWorkerKill(t *testing.T) {
	redistest.CheckGoroutines(t)
	w := redistest.Worker(t, "echo")
	w.Kill()
	w.Kill()
	if w.Wait() == nil {
		t.Error("a killed worker ended well")
	}
	redistest.Worker(t, "echo") // left to the cleanup, with its line unread
}

func TestNowIsSharedByProcesses(t *testing.T) {
	before := redistest.Now()
	w := redistest.Worker(t, "clock")
	line := await(t, w.Lines(), "time of the worker")
	after := redistest.Now()
	var now int64
	if _, err := fmt.Sscan(line, &now); err != nil || now < before || now > after {
		t.Errorf("the worker's time is %q, want it from %d to %d", line, before, after)
	}
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServerDiesWithItsTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	redistest.Shared(t) // skips or fails where there is no server
	w := redistest.Worker(t, "server", "DIR="+t.TempDir())
	addr := await(t, w.Lines(), "address of the server")
	dial(t, addr).call("PONG", "PING")
	w.Kill()
	eventually(t, "end of the server", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}
