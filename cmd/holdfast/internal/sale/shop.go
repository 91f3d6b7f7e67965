package sale

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/object"
)

// A Job is the input of a shop process. It is sent on standard input, because it
// contains passwords that must not appear in the process list.
type Job struct {
	Crowd
	Shop        int
	Way         string
	Names       string // prefix of all keys
	URL, Config string // server
	DB          Database
}

func (j Job) lockName() string { return j.Names + ":coupon:" + j.Way }

// The commands that a shop reads after its job.
const (
	startSale = "open"
	proceed   = "go on"
)

// A message is what a shop reports to its parent, one message per line.
type message struct {
	Kind  string
	Took  time.Duration `json:",omitempty"` // latency of an order
	Error string        `json:",omitempty"`
	Cause int           `json:",omitempty"` // index into causes
}

// causes are the errors that the parent process must recognize.
var causes = []error{nil, holdfast.ErrUnavailable, holdfast.ErrRefused}

func causeOf(err error) int {
	return max(0, slices.IndexFunc(causes, func(cause error) bool { return cause != nil && errors.Is(err, cause) }))
}

// The kinds of messages.
const (
	ready   = "ready"
	ordered = "ordered"
	missed  = "missed"  // a click without an order: sold out, or the buyer has one
	refused = "refused" // the guard refused a write; the shop tries again
	writing = "writing" // about to write; the shop waits for proceed
	done    = "done"
	broken  = "broken"
)

// shopWorkers is the number of goroutines per shop.
const shopWorkers = 8

// A shop serves the clicks in its queue.
type shop struct {
	job    Job
	way    Way
	client *holdfast.Client
	ids    *object.TimeID
	ledger *ledger
	lock   lock

	mu     sync.Mutex // guards out and orders
	out    *json.Encoder
	orders int

	proceed chan struct{}
	pausing sync.RWMutex // write-locked while the shop may be stopped, so that it is not stopped during a read
}

// Serve runs a shop. It reads its job from in, serves the clicks, and writes the
// result of each click to out. It returns at the end of in or of the sale.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, Job, holdfast.Options) (*holdfast.Client, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	s := &shop{out: json.NewEncoder(out), proceed: make(chan struct{}, 1)}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &s.job) != nil {
		return errors.New("demo-shop is internal: run holdfast demo instead")
	}
	opened := make(chan struct{})
	go func() {
		for lines.Scan() {
			switch lines.Text() {
			case startSale:
				close(opened)
			case proceed:
				s.proceed <- struct{}{}
			}
		}
		cancel(errors.New("the sale was canceled"))
	}()
	err := s.serve(ctx, opened, open)
	if err != nil {
		s.send(message{Kind: broken, Error: strings.TrimPrefix(err.Error(), "holdfast: "), Cause: causeOf(err)})
	}
	return err
}

func (s *shop) serve(ctx context.Context, opened <-chan struct{}, open func(context.Context, Job, holdfast.Options) (*holdfast.Client, error)) error {
	var err error
	if s.way, err = find(s.job.Way); err != nil {
		return err
	}
	if s.client, err = open(ctx, s.job, holdfast.Options{WatchdogTimeout: s.way.lease()}); err != nil {
		return err
	}
	defer s.client.Close()
	if s.ledger, err = openLedger(ctx, s.job.DB, s.way, s.job.Shops); err != nil {
		return err
	}
	defer s.ledger.Close() //nolint:errcheck // the process ends
	s.ids = object.NewTimeID(s.client, idsName(s.job.Names))
	s.lock = s.way.lock(s)
	queue := s.job.Queues()[s.job.Shop]
	s.send(message{Kind: ready})
	select {
	case <-opened:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.sell(ctx, queue); err != nil {
		return err
	}
	s.send(message{Kind: done})
	return nil
}

// sell serves the queue with several goroutines.
func (s *shop) sell(ctx context.Context, queue []Click) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	clicks := make(chan Click)
	var wg sync.WaitGroup
	for range shopWorkers {
		wg.Go(func() {
			for c := range clicks {
				if err := s.serveClick(ctx, c); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, c := range queue {
		select {
		case clicks <- c:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(clicks)
	wg.Wait()
	return context.Cause(ctx)
}

// serveClick serves one click and reports the result.
func (s *shop) serveClick(ctx context.Context, c Click) error {
	came := time.Now()
	for {
		bought, err := s.buy(ctx, c)
		switch {
		case errors.Is(err, fence.ErrStale):
			s.send(message{Kind: refused}) // nothing was written: try again with a new lease
			continue
		case errors.Is(err, errLate):
			continue
		case err != nil:
			return err
		case bought:
			s.send(message{Kind: ordered, Took: time.Since(came)})
		default:
			s.send(message{Kind: missed})
		}
		return nil
	}
}

// errLate means that the lock was lost before anything was written.
var errLate = errors.New("the lock was lost")

// buy serves a click like typical shop code: check the stock, acquire the lock,
// check again, wait for the payment, write the order and the new stock. Only the
// lock excludes other purchases.
func (s *shop) buy(ctx context.Context, c Click) (bool, error) {
	s.pausing.RLock()
	left, err := s.ledger.stock(ctx, s.ledger)
	s.pausing.RUnlock()
	if err != nil || left <= 0 {
		return false, err // sold out: the lock is not needed
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Release(ctx) //nolint:errcheck // a lost lock shows in the result

	left, before, err := s.ledger.check(ctx, lock.Token(), c.Buyer)
	if err != nil || left <= 0 || before > 0 {
		return false, err
	}
	id, err := s.ids.Next(ctx)
	if err != nil {
		return false, err
	}
	if err := sleep(ctx, c.Pay); err != nil {
		return false, err
	}
	if !lock.Valid() {
		return false, errLate
	}
	// The write below can no longer be prevented. A real pause can follow any check,
	// also the check of a context in the database driver, but it is rare. The demo
	// makes it happen here.
	if err := s.maybePause(ctx); err != nil {
		return false, err
	}
	err = s.ledger.sell(ctx, lock.Token(), order{id, c.Buyer, s.job.Shop}, left-1)
	return err == nil, err
}

// maybePause lets the parent process stop this process, once per sale.
func (s *shop) maybePause(ctx context.Context) error {
	s.mu.Lock()
	s.orders++
	pause := s.way.Pause && s.orders == s.job.pauseAt()
	s.mu.Unlock()
	if !pause {
		return nil
	}
	s.pausing.Lock()
	defer s.pausing.Unlock()
	s.send(message{Kind: writing})
	select {
	case <-s.proceed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send writes a message. It ignores errors: if the parent does not read any more,
// the shop is about to end.
func (s *shop) send(w message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(w)
}

func idsName(names string) string { return names + ":orders" }
