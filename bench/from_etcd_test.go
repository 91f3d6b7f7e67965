package bench

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
)

// The code of docs/from-etcd.md.

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
