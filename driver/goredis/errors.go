package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// classify turns an error of go-redis into one of package driver.
func classify(err error) error {
	var said redis.Error
	var known *driver.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case unreached(err),
		errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrPoolExhausted),
		strings.HasPrefix(err.Error(), "redis: all sentinels specified"): // this error has no exported name
		return driver.Unsent(err)
	case errors.As(err, &said):
		return driver.ServerError(said.Error())
	}
	return driver.Unknown(err)
}

// unreached reports whether a call failed because no connection to its server
// could be opened, or because the client of that server is closed.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrClosed)
}

// forCaller converts an error for the caller of the driver. All errors pass
// through it. It distinguishes the caller's deadline from the timeout of the
// client.
func (d *Driver) forCaller(ctx context.Context, err error) error {
	switch {
	case err == nil || driver.ClassOf(err) != driver.Ambiguous || driver.CodeOf(err) != "":
	case ctx.Err() != nil && !errors.Is(err, driver.ErrClosed):
		return driver.Unknown(ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", d.timeout())}
	}
	return driver.ForCaller(ctx, err)
}
