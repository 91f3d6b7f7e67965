package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

func init() { commands = append(commands, watchCommand) }

func watchCommand(a *app) *cobra.Command {
	var q lsQuery
	every, count := time.Second, 0
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Show locks and keep the list up to date",
		Long: `Watch shows the list of ls and updates it until you press q or Ctrl-C. New holds
are green. Holds that expire soon because they are not renewed are yellow, then
red. If the server becomes unavailable, the last list stays until it is back.

` + lsPatterns + `

Watch reads the keys as ls does and reads them again after --every. It spends at
most a fifth of the time reading, so it updates less often on a server with very
many keys.

If the output is not a terminal, watch prints each list below the last one, with
its time.

` + lsSchema + `

Watch prints one document per update, each on one line:

  {"at": "2006-01-02T15:04:05.000Z", "locks": [LOCK, ...], "complete": true}
  {"at": "2006-01-02T15:04:05.000Z", "error": "..."}

complete is false if --limit or --keys ended the list early. If the last of
--count updates is an error, the exit status reports it.`,
		Example: `  holdfast watch
  holdfast watch 'orders:*' --every 250ms
  holdfast watch --json --count 10 | jq '.locks | length'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case every < 100*time.Millisecond:
				return usage("--every is %v: it must be 100ms or more", every)
			case count < 0:
				return usage("--count is %d: it must not be negative", count)
			}
			return q.arguments(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			client, err := a.target.open(ctx, holdfast.Options{AllowReplica: true})
			if err != nil {
				return err
			}
			defer client.Close()
			w := &watcher{query: q, every: every, count: count, inspector: inspect.New(client.Driver())}
			screen := a.screen()
			switch {
			case q.json:
				w.show = func(p watchSnapshot) error { return a.printJSON(p.document()) }
			case screen.Movable():
				live := screen.Live(a.in)
				defer live.Close()
				w.live, w.title = live, "holdfast watch  "+a.target.shown()
				w.show = func(p watchSnapshot) error { live.Draw(w.lines(screen, p)); return nil }
			default:
				w.show = func(p watchSnapshot) error { _, err := io.WriteString(a.out, w.text(screen, p)); return err }
			}
			return w.run(ctx)
		}),
	}
	q.flags(cmd.Flags())
	cmd.Flags().DurationVar(&every, "every", every, "time between two updates")
	cmd.Flags().IntVar(&count, "count", 0, "stop after this many updates; 0: never")
	return cmd
}

// A watcher takes snapshots of the locks and shows them.
type watcher struct {
	query     lsQuery
	every     time.Duration
	count     int // number of snapshots; 0: no limit
	inspector *inspect.Inspector
	show      func(watchSnapshot) error
	live      *term.Live // nil if the output is not a terminal
	title     string
	known     map[watchHold]time.Time // when each hold was first seen
}

// A watchSnapshot is the state of the locks at one time. If reading failed, it has
// the error and the locks of the previous snapshot.
type watchSnapshot struct {
	at       time.Time // when the locks were read
	took     time.Duration
	locks    []inspect.Lock
	complete bool
	tried    time.Time // when reading began
	err      error
}

// A watchHold is one holder of one lock.
type watchHold struct{ name, owner string }

// run takes and shows snapshots until a key, a signal or --count ends it. It then
// returns nil, or the error of the last of --count snapshots.
func (w *watcher) run(ctx context.Context) error {
	var keys <-chan byte
	var resize <-chan struct{}
	last := watchSnapshot{complete: true} // empty until the first snapshot
	taken := make(chan watchSnapshot, 1)  // at most one snapshot is in progress
	take := func() { taken <- w.take(ctx) }
	go take()
	if w.live != nil {
		keys, resize = w.live.Keys, w.live.Resize
		if err := w.show(last); err != nil { // the first snapshot of a server with many keys takes long
			return err
		}
	}
	snapshots := 0
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case key := <-keys:
			if key == 'q' || key == 'Q' || key == term.CtrlC {
				return nil
			}
			continue
		case <-due:
			go take()
			continue
		case <-resize:
		case p := <-taken:
			last = w.next(last, p)
			snapshots++
			due = time.After(max(w.every, 4*p.took))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := w.show(last); err != nil {
			return err
		}
		if w.count > 0 && snapshots == w.count {
			return last.err
		}
	}
}

// take takes a snapshot.
func (w *watcher) take(ctx context.Context) watchSnapshot {
	p := watchSnapshot{tried: time.Now()}
	p.locks, p.complete, p.err = w.query.run(ctx, w.inspector)
	p.at, p.took = time.Now(), time.Since(p.tried)
	return p
}

// next completes the snapshot p, which follows last, and updates w.known.
func (w *watcher) next(last, p watchSnapshot) watchSnapshot {
	if p.err != nil {
		p.locks, p.complete, p.at = last.locks, last.complete, last.at
		return p
	}
	known := make(map[watchHold]time.Time)
	for _, lock := range p.locks {
		for _, h := range lock.Holders {
			hold := watchHold{lock.Name, h.Owner}
			switch since, ok := w.known[hold]; {
			case ok:
				known[hold] = since
			case w.known != nil:
				known[hold] = p.at
			default:
				known[hold] = time.Time{} // held before the first snapshot
			}
		}
	}
	w.known = known
	return p
}

// fresh returns a function that reports whether a hold is new in a snapshot.
func (w *watcher) fresh(p watchSnapshot) func(inspect.Lock, inspect.Holder) bool {
	return func(lock inspect.Lock, h inspect.Holder) bool {
		return p.at.Sub(w.known[watchHold{lock.Name, h.Owner}]) < 3*time.Second
	}
}

// watchDocument is the JSON form of a snapshot.
type watchDocument struct {
	At string `json:"at"`
	*lsDocument
	Error string `json:"error,omitempty"`
}

func (p watchSnapshot) document() watchDocument {
	const format = "2006-01-02T15:04:05.000Z07:00"
	if p.err != nil {
		return watchDocument{At: p.tried.UTC().Format(format), Error: p.err.Error()}
	}
	return watchDocument{At: p.at.UTC().Format(format), lsDocument: &lsDocument{Locks: lsLocks(p.locks), Complete: p.complete}}
}

// counts summarizes a snapshot: the numbers of locks, holders and waiters.
func (p watchSnapshot) counts() string {
	holders, waiting := 0, 0
	for _, lock := range p.locks {
		holders += len(lock.Holders)
		waiting += max(lsQueued(lock), lock.Clients, 0)
	}
	text := fmt.Sprintf("%s, %s, %d waiting", plural(len(p.locks), "lock"), plural(holders, "holder"), waiting)
	if !p.complete {
		text += ", and more"
	}
	return text
}
