package redistest

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// stopGrace is how long a child may take to end on request before it is
// killed. A server that runs an endless script would never end.
const stopGrace = 5 * time.Second

// child is a process that does not outlive this one, if the system supports
// that.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended, readable once done is closed
}

// spawn starts cmd.
func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.supervise(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// supervise starts the process and waits for its end. Both happen on one locked
// thread: Linux ties the parent-death signal to the thread that forked, and the
// runtime may end a thread long before the process.
func (c *child) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(c.cmd)
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill kills the process. It returns once the process has ended and its sockets
// are closed.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails when it has ended already
	<-c.done
}

// stop asks the process to end, waking it if it is paused, and kills it when
// it does not.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(sigTerm)
	_ = c.cmd.Process.Signal(sigCont)
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.kill()
	}
}

// pause stops the process and returns when it no longer runs.
func (c *child) pause() error {
	if err := c.cmd.Process.Signal(sigStop); err != nil {
		return err
	}
	return awaitStop(c.pid())
}

// resume continues a paused process.
func (c *child) resume() error {
	return c.cmd.Process.Signal(sigCont)
}
