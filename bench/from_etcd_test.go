package bench

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
)

// The code of docs/from-etcd.md.

func chargeWithEtcd(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	if err != nil {
		return err
	}
	defer session.Close()
	m := concurrency.NewMutex(session, "order:42")
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer m.Unlock(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.Ctx(), cancel)() // when the session is lost
	return charge(ctx)
}

func chargeWithHoldfast(ctx context.Context, client *holdfast.Client) error {
	return client.Mutex("order:42").Do(ctx, charge) // the context of charge is done when the lock is lost
}

func tryWithEtcd(ctx context.Context, session *concurrency.Session) error {
	m := concurrency.NewMutex(session, "order:42")
	if err := m.TryLock(ctx); errors.Is(err, concurrency.ErrLocked) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer m.Unlock(context.WithoutCancel(ctx))
	return charge(ctx)
}

func tryWithHoldfast(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.Mutex("order:42").TryLock(ctx)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return charge(lease.Context())
}

func leadWithEtcd(ctx context.Context, session *concurrency.Session, address string) error {
	e := concurrency.NewElection(session, "scheduler")
	if err := e.Campaign(ctx, address); err != nil {
		return err
	}
	defer e.Resign(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.Ctx(), cancel)()
	return schedule(ctx)
}

func leadWithHoldfast(ctx context.Context, client *holdfast.Client, address string) error {
	return client.Election("scheduler").Lead(ctx, address, schedule) // and again, after the lead was lost
}

func followWithEtcd(ctx context.Context, session *concurrency.Session) {
	for resp := range concurrency.NewElection(session, "scheduler").Observe(ctx) {
		follow(string(resp.Kvs[0].Value))
	}
}

func followWithHoldfast(ctx context.Context, client *holdfast.Client) {
	for leader, err := range client.Election("scheduler").Observe(ctx) {
		if err == nil && leader.Term > 0 { // zero: there is no leader
			follow(leader.Name)
		}
	}
}

// doWithBoth runs fn while it holds the lock of etcd and the lock of Holdfast. The context of fn is done
// when either is lost.
func doWithBoth(ctx context.Context, etcd *clientv3.Client, client *holdfast.Client, name string, fn func(context.Context) error) error {
	session, err := concurrency.NewSession(etcd, concurrency.WithTTL(30)) // one for each call, see below
	if err != nil {
		return err
	}
	defer session.Close() // frees the lock of etcd
	m := concurrency.NewMutex(session, name)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(session.Ctx(), func() { cancel(concurrency.ErrSessionExpired) })()
	return client.Mutex(name).Do(ctx, fn) // released before the lock of etcd
}

func schedule(context.Context) error { return nil }

var follow = func(string) {}
