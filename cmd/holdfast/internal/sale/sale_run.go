package sale

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/child"
)

// A saleRun is a running sale. It controls the shop processes and reads their
// messages.
type saleRun struct {
	market   *Market
	ledger   *ledger
	result   *Result
	messages chan shopMessage

	shops          []*shopProcess
	ready, done    int
	all            int // number of clicks of the sale
	clicks, orders int // number of served clicks and of orders so far
	opened         time.Time
	stopped        *shopProcess // the shop that is stopped now, or nil
	since          time.Time    // when it was stopped
	before         int          // number of orders when it was stopped
}

// shopMessage is a message of a shop. Its kind is empty if the shop has ended.
type shopMessage struct {
	by *shopProcess
	message
}

// shopProcess is a shop process.
type shopProcess struct {
	number int // from 1
	cmd    *exec.Cmd
	in     io.WriteCloser
	errs   bytes.Buffer
	exited <-chan struct{}
	done   bool
}

// run runs the sale until all shops are done.
func (f *saleRun) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.close()
	defer cancel() // before close, which waits for the shops
	for i := range f.market.Shops {
		if err := f.start(ctx, i); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for f.done < len(f.shops) {
		var err error
		select {
		case s := <-f.messages:
			err = f.handle(ctx, s)
		case <-ticker.C:
			err = f.tick(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts a shop process and sends its job.
func (f *saleRun) start(ctx context.Context, i int) error {
	s := &shopProcess{number: i + 1, cmd: f.market.Shop()}
	s.cmd.Stderr = &s.errs
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.in = in
	out, w := io.Pipe()
	s.cmd.Stdout = w
	c, err := child.Start(s.cmd, true)
	if err != nil {
		return fmt.Errorf("cannot start a shop: %w", err)
	}
	s.exited = c.Exited()
	f.shops = append(f.shops, s)
	go func() {
		<-s.exited
		_ = w.Close()
	}()
	go f.listen(ctx, s, out)
	// If the shop has already ended, listen reports it.
	_ = json.NewEncoder(in).Encode(f.market.job(f.ledger.way, i))
	return nil
}

// listen forwards the messages of a shop until ctx is done.
func (f *saleRun) listen(ctx context.Context, s *shopProcess, out io.Reader) {
	lines := bufio.NewScanner(out)
	for more := true; more; {
		w := shopMessage{by: s}
		if more = lines.Scan(); more && json.Unmarshal(lines.Bytes(), &w.message) != nil {
			w.message = message{Kind: broken, Error: "invalid message"}
		}
		select {
		case f.messages <- w:
		case <-ctx.Done():
			_, _ = io.Copy(io.Discard, out) // the shop must not block on its output
			return
		}
	}
}

// send sends a line to a shop. If the shop has ended, listen reports it.
func (s *shopProcess) send(text string) { _, _ = io.WriteString(s.in, text+"\n") }

func (f *saleRun) handle(ctx context.Context, s shopMessage) error {
	switch s.Kind {
	case ready:
		if f.ready++; f.ready == len(f.shops) {
			f.opened = time.Now()
			for _, s := range f.shops {
				s.send(startSale)
			}
		}
	case ordered:
		f.clicks++
		f.orders++
		f.result.Took = time.Since(f.opened)
		f.result.times = append(f.result.times, s.Took)
	case missed:
		f.clicks++
	case refused:
		f.result.Refused++
	case writing:
		return f.stop(ctx, s.by)
	case done:
		s.by.done = true
		f.done++
	case broken:
		return &textError{fmt.Sprintf("shop %d: %s", s.by.number, s.Error), causes[s.Cause]}
	default:
		if !s.by.done {
			<-s.by.exited // its error output is complete
			return fmt.Errorf("shop %d ended too early: %s", s.by.number, strings.TrimSpace(s.by.errs.String()))
		}
	}
	return nil
}

// stop stops a shop that is about to write, if none was stopped before.
func (f *saleRun) stop(ctx context.Context, s *shopProcess) (err error) {
	if f.result.Paused != 0 {
		s.send(proceed)
		return nil
	}
	if err := pause(s.cmd.Process); err != nil {
		return fmt.Errorf("cannot stop a shop: %w", err)
	}
	f.stopped, f.since, f.result.Paused = s, time.Now(), s.number
	f.before, err = f.ledger.sold(ctx)
	return err
}

// tick is called regularly. It shows the progress, and resumes the stopped shop
// when its lease is over and the other shops are done.
func (f *saleRun) tick(ctx context.Context) error {
	note := fmt.Sprintf("%d sold", f.orders)
	if s := f.stopped; s != nil {
		note += fmt.Sprintf(", shop %d is stopped", s.number)
		if time.Since(f.since) > f.ledger.way.lease()+100*time.Millisecond && f.done == len(f.shops)-1 {
			sold, err := f.ledger.sold(ctx)
			if err != nil {
				return err
			}
			f.result.Pause, f.result.Meanwhile = time.Since(f.since), sold-f.before
			f.stopped = nil
			s.send(proceed)
			if err := resume(s.cmd.Process); err != nil {
				return fmt.Errorf("cannot resume a shop: %w", err)
			}
		}
	}
	// Most clicks come after the last coupon is sold and take little time.
	sold, clicked := float64(f.orders)/float64(f.market.Stock), float64(f.clicks)/float64(f.all)
	f.market.Progress(0.8*min(1, sold)+0.2*clicked, note)
	return nil
}

// closeTimeout is the time for a shop to release its lock and exit.
const closeTimeout = 5 * time.Second

// close ends the input of all shops, which makes them exit. It kills the shops that
// do not exit in time.
func (f *saleRun) close() {
	for _, s := range f.shops {
		_ = s.in.Close()
		if s == f.stopped {
			_ = resume(s.cmd.Process)
		}
	}
	late, cancel := context.WithTimeout(context.Background(), cmp.Or(f.market.closeTimeout, closeTimeout))
	defer cancel()
	for _, s := range f.shops {
		select {
		case <-s.exited:
		case <-late.Done():
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
	}
}
