package interop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	goobject "github.com/holdfast-go/holdfast/object"
)

// lock acquires a lock. A lease of 0 is renewed. The method is that of Redisson, such as "lock"
// or "readLock.lock".
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

// waiting starts to wait for a lock that is not free.
func waiting(who string) op { return behind(who, lock(who, "lock", 0)) }

// behind starts an operation in the background.
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

// try waits for a lock for at most the given time.
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

// granted converts an error to the boolean answer of Redisson.
func granted(err error) (any, error) {
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	return true, err
}

// unlock releases the lock that the owner has acquired last.
func unlock(who, method string) op { return unlockNth(who, method, -1) }

// unlockNth releases the i-th lock that the owner holds; −1 is the last.
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

// freed breaks a lock.
func freed(method string) op {
	return op{java: java(method), golang: func(g *goSide) (any, error) {
		return g.locker(method).(interface {
			ForceUnlock(context.Context) (bool, error)
		}).ForceUnlock(bg)
	}}
}

// same pairs a Java call with its Go form for an object of type T.
func same[T any](c call, f func(T) (any, error)) op {
	return op{java: c, golang: func(g *goSide) (any, error) { return f(g.object.(T)) }}
}

// asObject returns an operation on any object.
func asObject(c call, f func(o *goobject.Object, g *goSide) (any, error)) op {
	return op{java: c, golang: func(g *goSide) (any, error) {
		thing := g.object
		if thing == nil {
			thing = g.locker("")
		}
		return f(locktest.ObjectOf(thing), g)
	}}
}

func expire(seconds int) op {
	return asObject(java("expire", fmt.Sprintf("PT%dS", seconds)), func(o *goobject.Object, _ *goSide) (any, error) {
		return o.Expire(bg, time.Duration(seconds)*time.Second)
	})
}

var (
	persist = asObject(java("clearExpire"), func(o *goobject.Object, _ *goSide) (any, error) {
		return o.Persist(bg)
	})
	remove = asObject(java("delete"), func(o *goobject.Object, _ *goSide) (any, error) {
		return o.Delete(bg)
	})
	rename = asObject(java("rename", other(":new")), func(o *goobject.Object, g *goSide) (any, error) {
		return nil, o.Rename(bg, other(":new").of(&g.on))
	})
)
