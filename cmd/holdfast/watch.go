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
		Short: "Watch what is locked, live",
		Long: `Watch shows what ls shows, and keeps it up to date until q or Ctrl-C. Holds that
are new are green; those that end soon, since nobody renews them, are yellow and
then red. If the server goes away, the last picture stays until it is back.

` + lsPatterns + `

The server is asked as by ls, and again after --every; but never for more than a
fifth of the time, so that one with very many keys is asked less often.

Where the output is no terminal, every picture is printed below the last one,
with its time.

` + lsSchema + `

Watch prints one document per picture, each on one line:

  {"at": "2006-01-02T15:04:05.000Z", "locks": [LOCK, ...], "complete": true}
  {"at": "2006-01-02T15:04:05.000Z", "error": "..."}

complete is false if --limit or --keys has ended the list. If the last of
--count pictures is an error, so is the exit status.`,
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
			client, err := a.target.open(ctx, holdfast.Options{})
			if err != nil {
				return err
			}
			defer client.Close()
			w := &watcher{query: q, every: every, count: count, inspector: inspect.New(client.Driver())}
			screen := a.screen()
			switch {
			case q.json:
				w.show = func(p watchPicture) error { return a.printJSON(p.document()) }
			case screen.Movable():
				live := screen.Live(a.in)
				defer live.Close()
				w.live, w.title = live, "holdfast watch  "+a.target.shown()
				w.show = func(p watchPicture) error { live.Draw(w.lines(screen, p)); return nil }
			default:
				w.show = func(p watchPicture) error { _, err := io.WriteString(a.out, w.text(screen, p)); return err }
			}
			return w.run(ctx)
		}),
	}
	q.flags(cmd.Flags())
	cmd.Flags().DurationVar(&every, "every", every, "how long to wait before the next picture")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many pictures; 0: never")
	return cmd
}

// A watcher takes pictures and shows them.
type watcher struct {
	query     lsQuery
	every     time.Duration
	count     int // after how many pictures to end; 0: never
	inspector *inspect.Inspector
	show      func(watchPicture) error
	live      *term.Live // nil if the output is no terminal
	title     string
	known     map[watchHold]time.Time // when each hold was first seen
}

// A watchPicture is what was locked at one moment. If the server did not tell,
// it has the error, and the locks of the last picture before.
type watchPicture struct {
	at       time.Time // of the locks
	took     time.Duration
	locks    []inspect.Lock
	complete bool
	tried    time.Time
	err      error
}

// A watchHold is one holder of one lock.
type watchHold struct{ name, owner string }

// run takes pictures until the user, or --count, ends it. That is its normal
// end, and no error.
func (w *watcher) run(ctx context.Context) error {
	var keys <-chan byte
	var resize <-chan struct{}
	last := watchPicture{complete: true} // which has nothing yet
	taken := make(chan watchPicture, 1)  // of at most one at a time
	take := func() { taken <- w.take(ctx) }
	go take()
	if w.live != nil {
		keys, resize = w.live.Keys, w.live.Resize
		if err := w.show(last); err != nil { // a server with many keys takes its time
			return err
		}
	}
	pictures := 0
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
			pictures++
			due = time.After(max(w.every, 4*p.took))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := w.show(last); err != nil {
			return err
		}
		if w.count > 0 && pictures == w.count {
			return last.err
		}
	}
}

// take takes a picture.
func (w *watcher) take(ctx context.Context) watchPicture {
	p := watchPicture{tried: time.Now()}
	p.locks, p.complete, p.err = w.query.run(ctx, w.inspector)
	p.at, p.took = time.Now(), time.Since(p.tried)
	return p
}

// next returns the picture after last, and learns what is known by it.
func (w *watcher) next(last, p watchPicture) watchPicture {
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
				known[hold] = time.Time{} // there before anybody watched
			}
		}
	}
	w.known = known
	return p
}

// fresh returns which holds are new in a picture.
func (w *watcher) fresh(p watchPicture) func(inspect.Lock, inspect.Holder) bool {
	return func(lock inspect.Lock, h inspect.Holder) bool {
		return p.at.Sub(w.known[watchHold{lock.Name, h.Owner}]) < 3*time.Second
	}
}

// watchDocument is a picture for machines.
type watchDocument struct {
	At string `json:"at"`
	*lsDocument
	Error string `json:"error,omitempty"`
}

func (p watchPicture) document() watchDocument {
	const format = "2006-01-02T15:04:05.000Z07:00"
	if p.err != nil {
		return watchDocument{At: p.tried.UTC().Format(format), Error: p.err.Error()}
	}
	return watchDocument{At: p.at.UTC().Format(format), lsDocument: &lsDocument{lsLocks(p.locks), p.complete}}
}

// counts returns the numbers of a picture in words.
func (p watchPicture) counts() string {
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
