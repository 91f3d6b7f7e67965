package server

import (
	"context"
	"os/exec"
)

// Answers waits until the server at addr is the given program, for as long as
// ctx.
func Answers(ctx context.Context, program *exec.Cmd, addr string) error {
	c := &process{cmd: program}
	if err := c.start(); err != nil {
		return err
	}
	defer c.stop()
	_, err := c.answers(ctx, addr)
	return err
}
