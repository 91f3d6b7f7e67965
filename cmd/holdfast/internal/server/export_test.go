package server

import (
	"context"
	"os/exec"
)

// Answers starts a program and waits until it answers on addr or ctx is done.
func Answers(ctx context.Context, program *exec.Cmd, addr string) error {
	c := &process{cmd: program}
	if err := c.start(); err != nil {
		return err
	}
	defer c.stop()
	_, err := c.awaitReady(ctx, addr)
	return err
}
