package simulation_test

import (
	"context"
	"encoding/hex"

	"github.com/holdfast-go/holdfast"
)

// An object is a name on the server, with all that is used under it.
type object struct {
	name     string
	kinds    []kind
	capacity int  // of a leased semaphore; 0: it is a lock
	votes    bool // a majority of all servers has it
}

// A kind is one way to acquire an object.
type kind struct {
	name    string
	shared  bool   // several may hold it
	permits int    // of a semaphore
	tokens  string // tokens with the same text rise together; "": they are not compared
	locker  func(p *process, name string) holdfast.Locker
}

var (
	mutex  = kind{name: "mutex", tokens: "clock", locker: func(p *process, n string) holdfast.Locker { return p.clients[0].Mutex(n) }}
	fenced = kind{name: "fenced", tokens: "counter", locker: func(p *process, n string) holdfast.Locker { return p.clients[0].FencedMutex(n) }}
	fair   = kind{name: "fair", tokens: "clock", locker: func(p *process, n string) holdfast.Locker { return p.clients[0].FairMutex(n) }}
	write  = kind{name: "write", tokens: "clock", locker: func(p *process, n string) holdfast.Locker { return p.clients[0].RWMutex(n) }}
	first  = kind{name: "write first", tokens: "clock", locker: func(p *process, n string) holdfast.Locker { return p.clients[0].RWMutex(n, holdfast.WriterFirst()) }}
	read   = kind{name: "read", shared: true, locker: func(p *process, n string) holdfast.Locker { return p.clients[0].RWMutex(n).RLocker() }}
	quorum = kind{name: "redlock", locker: func(p *process, n string) holdfast.Locker { return p.redlock.Mutex(n) }}
	elects = kind{name: "election", tokens: "counter", locker: func(p *process, n string) holdfast.Locker { return candidate{p.clients[0].Election(n)} }}
)

func permits(n, of int) kind {
	return kind{name: "permits", shared: true, permits: n, locker: func(p *process, name string) holdfast.Locker {
		return p.clients[0].LeasedSemaphore(name, holdfast.WithPermits(of)).Locker(n)
	}}
}

// ids returns what the server writes for a lease: its owner, or its permits.
func ids(l *holdfast.Lease) []string {
	if ps := l.PermitIDs(); len(ps) > 0 {
		all := make([]string, len(ps))
		for i, p := range ps {
			raw, _ := hex.DecodeString(p)
			all[i] = string(raw)
		}
		return all
	}
	return []string{l.Owner()}
}

// A candidate is an election as a lock.
type candidate struct{ *holdfast.Election }

func (c candidate) Lock(ctx context.Context, opts ...holdfast.LockOption) (*holdfast.Lease, error) {
	return c.Campaign(ctx, "me", opts...)
}

func (c candidate) TryLock(ctx context.Context, opts ...holdfast.LockOption) (*holdfast.Lease, error) {
	return c.TryCampaign(ctx, "me", opts...)
}

func (c candidate) Do(ctx context.Context, fn func(context.Context) error, opts ...holdfast.LockOption) error {
	return c.Lead(ctx, "me", fn, opts...)
}

func (candidate) Name() string { return "election" }
