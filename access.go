package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
)

func init() {
	access.New = func(client any, kind, name string, wrong error) access.Named {
		c, _ := client.(*Client)
		o := newNamed(c, kind, name, settings{})
		o.set.fail(wrong)
		return (*inside)(&o)
	}
	access.Of = func(x any) access.Managed { return x.(managed).managed() }
	access.Zero = (*inside)(new(named))
}

// A managed is an object whose keys package object manages.
type managed interface{ managed() access.Managed }

func (o *named) managed() access.Managed { return access.Manage((*inside)(o)) }

// inside is a named as package object sees it.
type inside named

func (o *inside) named() *named { return (*named)(o) }

func (o *inside) Kind() string { return o.kind }

func (o *inside) Name() string { return o.given }

func (o *inside) Key() string { return o.name }

func (o *inside) Prefixed(name string) string { return o.client.prefixed(name) }

func (o *inside) Engine() *engine.Engine {
	if o.client.usable() != nil {
		return nil
	}
	return o.client.engine
}

func (o *inside) Driver() driver.Driver { return o.client.driver }

func (o *inside) Combined() driver.Driver { return o.client.combined }

func (o *inside) Ready(ctx context.Context) error { return o.named().ready(ctx) }

func (o *inside) Ask(ctx context.Context, op string, repeat bool, question func(context.Context) error) error {
	return o.named().ask(ctx, op, repeat, question)
}

func (o *inside) Order(ctx context.Context, op string, call engine.Order) (driver.Reply, error) {
	return o.named().order(ctx, op, call, nil)
}

func (o *inside) Decide(ctx context.Context, op string, call engine.Order) (bool, error) {
	return o.named().decide(ctx, op, call)
}

func (o *inside) Fail(op string, err error) error { return o.named().fail(op, err) }

func (o *inside) Because(ctx context.Context, err error) error { return because(ctx, err) }
