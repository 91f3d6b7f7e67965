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
)

// A Job is what a shop has to know. It comes on the standard input, where no
// other user of the machine can read the passwords in it.
type Job struct {
	Crowd
	Shop        int
	Way         string
	Names       string // what the names of all keys begin with
	URL, Config string // of the server
	DB          Database
}

func (j Job) lockName() string { return j.Names + ":coupon:" + j.Way }

// What a shop is told after its job.
const (
	openDoors = "open"
	goOn      = "go on"
)

// A word is what a shop says, one per line.
type word struct {
	Kind  string
	Took  time.Duration `json:",omitempty"` // of an order
	Error string        `json:",omitempty"`
	Cause int           `json:",omitempty"` // of the error: the number of one of causes
}

// causes are the errors whose kind matters to who runs the sale.
var causes = []error{nil, holdfast.ErrUnavailable, holdfast.ErrRefused}

func causeOf(err error) int {
	return max(0, slices.IndexFunc(causes, func(cause error) bool { return cause != nil && errors.Is(err, cause) }))
}

// The words.
const (
	ready   = "ready"
	ordered = "ordered"
	missed  = "missed"  // a click that came to nothing: sold out, or not the first
	refused = "refused" // a write that the guard did not let through; it is tried again
	writing = "writing" // about to write, and waiting to be told to go on
	done    = "done"
	broken  = "broken"
)

// counters is how many customers a shop serves at a time.
const counters = 8

// A shop sells to the clicks in its queue.
type shop struct {
	job    Job
	way    Way
	client *holdfast.Client
	ids    *holdfast.TimeID
	desk   *desk
	lock   lock

	mu     sync.Mutex // guards what follows, and the words
	out    *json.Encoder
	orders int

	goOn  chan struct{}
	quiet sync.RWMutex // held to write while the shop may be stopped, so that it is not stopped while it reads
}

// Serve is the life of a shop: it reads its job from in, sells, and says on out
// what becomes of each click. It ends with in, and with the sale.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, Job, holdfast.Options) (*holdfast.Client, error)) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	s := &shop{out: json.NewEncoder(out), goOn: make(chan struct{}, 1)}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &s.job) != nil {
		return errors.New("demo-shop is internal: run holdfast demo instead")
	}
	opened := make(chan struct{})
	go func() {
		for lines.Scan() {
			switch lines.Text() {
			case openDoors:
				close(opened)
			case goOn:
				s.goOn <- struct{}{}
			}
		}
		leave(errors.New("the sale was canceled"))
	}()
	err := s.serve(ctx, opened, open)
	if err != nil {
		s.say(word{Kind: broken, Error: strings.TrimPrefix(err.Error(), "holdfast: "), Cause: causeOf(err)})
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
	if s.desk, err = openDesk(ctx, s.job.DB, s.way, s.job.Shops); err != nil {
		return err
	}
	defer s.desk.Close() //nolint:errcheck // it is the end
	s.ids = s.client.TimeID(idsName(s.job.Names))
	s.lock = s.way.lock(s)
	queue := s.job.Queues()[s.job.Shop]
	s.say(word{Kind: ready})
	select {
	case <-opened:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.sell(ctx, queue); err != nil {
		return err
	}
	s.say(word{Kind: done})
	return nil
}

// sell serves the queue at all counters.
func (s *shop) sell(ctx context.Context, queue []Click) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	clicks := make(chan Click)
	var wg sync.WaitGroup
	for range counters {
		wg.Go(func() {
			for c := range clicks {
				if err := s.attend(ctx, c); err != nil {
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

// attend serves one click, and says what came of it.
func (s *shop) attend(ctx context.Context, c Click) error {
	came := time.Now()
	for {
		bought, err := s.buy(ctx, c)
		switch {
		case errors.Is(err, fence.ErrStale):
			s.say(word{Kind: refused}) // nothing was written: once more, under a new lease
			continue
		case errors.Is(err, errLate):
			continue
		case err != nil:
			return err
		case bought:
			s.say(word{Kind: ordered, Took: time.Since(came)})
		default:
			s.say(word{Kind: missed})
		}
		return nil
	}
}

// errLate says that the lock was lost before anything was written.
var errLate = errors.New("the lock was lost")

// buy is what many would write: look whether something is left, take the lock,
// look again, let the bank take its time, write the order and what is left now.
// Nothing but the lock keeps two of them apart.
func (s *shop) buy(ctx context.Context, c Click) (bool, error) {
	s.quiet.RLock()
	left, err := s.desk.stock(ctx, s.desk)
	s.quiet.RUnlock()
	if err != nil || left <= 0 {
		return false, err // sold out: no need to queue for the lock
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Release(ctx) //nolint:errcheck // a lock that was lost shows in the books

	left, before, err := s.desk.look(ctx, lock.Token(), c.Buyer)
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
	// From here on nothing can be called back. A pause can come after any check,
	// also that of a context somewhere down in the driver of the database; but it
	// seldom does, and is made to come here.
	if err := s.maybePause(ctx); err != nil {
		return false, err
	}
	err = s.desk.sell(ctx, lock.Token(), order{id, c.Buyer, s.job.Shop}, left-1)
	return err == nil, err
}

// maybePause gives the one who runs the sale the chance to stop this process.
func (s *shop) maybePause(ctx context.Context) error {
	s.mu.Lock()
	s.orders++
	pause := s.way.Pause && s.orders == s.job.pauseAt()
	s.mu.Unlock()
	if !pause {
		return nil
	}
	s.quiet.Lock()
	defer s.quiet.Unlock()
	s.say(word{Kind: writing})
	select {
	case <-s.goOn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// say writes a word. If nobody listens any more, the shop is about to be closed.
func (s *shop) say(w word) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(w)
}

func idsName(names string) string { return names + ":orders" }
