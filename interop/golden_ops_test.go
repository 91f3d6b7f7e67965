package interop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// lock takes a lock, with a lease that is renewed if it is 0. The method is
// Redisson's, as in "lock" or "readLock.lock".
func lock(who, method string, lease time.Duration) op {
	c := by(who, method)
	if lease != 0 {
		c.args = []any{lease.Milliseconds(), "MILLISECONDS"}
	}
	return op{java: c, golang: func(g *goSide) (any, error) {
		o := g.owner(who)
		return nil, o.take(g.locker(method).Lock(o.context(), options(lease)...))
	}}
}

// waiting begins to wait for a lock that is not free.
func waiting(who string) op { return behind(who, lock(who, "lock", 0)) }

// behind begins an operation of an owner that takes a while.
func behind(who string, o op) op {
	return op{java: o.java, behind: true, golang: func(g *goSide) (any, error) {
		comes := make(chan error, 1)
		g.owner(who).comes = comes
		go func() {
			_, err := o.golang(g)
			comes <- err
		}()
		return nil, nil
	}}
}

// try waits for a lock no longer than it is told to.
func try(who, method string, wait time.Duration) op {
	c := by(who, method)
	if wait != 0 {
		c.args = []any{wait.Milliseconds(), "MILLISECONDS"}
	}
	return op{java: c, golang: func(g *goSide) (any, error) {
		o := g.owner(who)
		return granted(o.take(g.locker(method).TryLock(o.context(), holdfast.Wait(wait))))
	}}
}

// granted is what Redisson answers in place of an error.
func granted(err error) (any, error) {
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	return true, err
}

// unlock leaves the lock that the owner has entered last.
func unlock(who, method string) op { return unlockNth(who, method, -1) }

// unlockNth leaves the i-th lock that the owner holds; −1 is the last.
func unlockNth(who, method string, i int) op {
	return op{java: by(who, method), golang: func(g *goSide) (any, error) {
		o := g.owner(who)
		if o.comes != nil {
			if err := <-o.comes; err != nil {
				return nil, err
			}
			o.comes = nil
		}
		i := i
		if i < 0 {
			i += len(o.leases)
		}
		if i < 0 || i >= len(o.leases) {
			return nil, fmt.Errorf("%s holds nothing", who)
		}
		l := o.leases[i]
		o.leases = append(o.leases[:i:i], o.leases[i+1:]...)
		return nil, l.Release(bg)
	}}
}

// freed frees a lock, whoever holds it.
func freed(method string) op {
	return op{java: java(method), golang: func(g *goSide) (any, error) {
		return g.locker(method).(interface {
			ForceUnlock(context.Context) (bool, error)
		}).ForceUnlock(bg)
	}}
}

// same pairs a call with what it is in Go, for an object of type T.
func same[T any](c call, f func(T) (any, error)) op {
	return op{java: c, golang: func(g *goSide) (any, error) { return f(g.object.(T)) }}
}

// asObject is an operation on what is kept at the server, whatever it is.
func asObject(c call, f func(o *holdfast.Object, g *goSide) (any, error)) op {
	return op{java: c, golang: func(g *goSide) (any, error) {
		thing := g.object
		if thing == nil {
			thing = g.locker("")
		}
		return f(thing.(interface{ Object() *holdfast.Object }).Object(), g)
	}}
}

func expire(seconds int) op {
	return asObject(java("expire", fmt.Sprintf("PT%dS", seconds)), func(o *holdfast.Object, _ *goSide) (any, error) {
		return o.Expire(bg, time.Duration(seconds)*time.Second)
	})
}

var (
	persist = asObject(java("clearExpire"), func(o *holdfast.Object, _ *goSide) (any, error) {
		return o.Persist(bg)
	})
	remove = asObject(java("delete"), func(o *holdfast.Object, _ *goSide) (any, error) {
		return o.Delete(bg)
	})
	rename = asObject(java("rename", other(":new")), func(o *holdfast.Object, g *goSide) (any, error) {
		return nil, o.Rename(bg, other(":new").of(&g.on))
	})
)
