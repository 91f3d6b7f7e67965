package sale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/child"
)

// A floor is a running sale. It controls the shop processes and reads their
// messages.
type floor struct {
	market *Market
	desk   *desk
	result *Result
	words  chan said

	shops          []*staff
	ready, done    int
	all            int // number of clicks of the sale
	clicks, orders int // number of served clicks and of orders so far
	opened         time.Time
	stopped        *staff    // the shop that is stopped now, or nil
	since          time.Time // when it was stopped
	before         int       // number of orders when it was stopped
}

// said is a message of a shop. Its kind is empty if the shop has ended.
type said struct {
	by *staff
	word
}

// staff is a shop process.
type staff struct {
	number int // from 1
	cmd    *exec.Cmd
	in     io.WriteCloser
	errs   bytes.Buffer
	exited <-chan struct{}
	done   bool
}

// run runs the sale until all shops are done.
func (f *floor) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.close()
	defer cancel() // before close, which waits for the shops
	for i := range f.market.Shops {
		if err := f.start(ctx, i); err != nil {
			return err
		}
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for f.done < len(f.shops) {
		var err error
		select {
		case s := <-f.words:
			err = f.hear(ctx, s)
		case <-look.C:
			err = f.look(ctx)
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
func (f *floor) start(ctx context.Context, i int) error {
	s := &staff{number: i + 1, cmd: f.market.Shop()}
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
	_ = json.NewEncoder(in).Encode(f.market.job(f.desk.way, i))
	return nil
}

// listen forwards the messages of a shop until ctx is done.
func (f *floor) listen(ctx context.Context, s *staff, out io.Reader) {
	lines := bufio.NewScanner(out)
	for more := true; more; {
		w := said{by: s}
		if more = lines.Scan(); more && json.Unmarshal(lines.Bytes(), &w.word) != nil {
			w.word = word{Kind: broken, Error: "invalid message"}
		}
		select {
		case f.words <- w:
		case <-ctx.Done():
			_, _ = io.Copy(io.Discard, out) // the shop must not block on its output
			return
		}
	}
}

// tell sends a line to a shop. If the shop has ended, listen reports it.
func (s *staff) tell(text string) { _, _ = io.WriteString(s.in, text+"\n") }

func (f *floor) hear(ctx context.Context, s said) error {
	switch s.Kind {
	case ready:
		if f.ready++; f.ready == len(f.shops) {
			f.opened = time.Now()
			for _, s := range f.shops {
				s.tell(openDoors)
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
		return &plain{fmt.Sprintf("shop %d: %s", s.by.number, s.Error), causes[s.Cause]}
	default:
		if !s.by.done {
			<-s.by.exited // its error output is complete
			return fmt.Errorf("shop %d ended too early: %s", s.by.number, strings.TrimSpace(s.by.errs.String()))
		}
	}
	return nil
}

// stop stops a shop that is about to write, if none was stopped before.
func (f *floor) stop(ctx context.Context, s *staff) (err error) {
	if f.result.Paused != 0 {
		s.tell(goOn)
		return nil
	}
	if err := pause(s.cmd.Process); err != nil {
		return fmt.Errorf("cannot stop a shop: %w", err)
	}
	f.stopped, f.since, f.result.Paused = s, time.Now(), s.number
	f.before, err = f.desk.sold(ctx)
	return err
}

// look is called regularly. It shows the progress, and resumes the stopped shop
// when its lease is over and the other shops are done.
func (f *floor) look(ctx context.Context) error {
	note := fmt.Sprintf("%d sold", f.orders)
	if s := f.stopped; s != nil {
		note += fmt.Sprintf(", shop %d is stopped", s.number)
		if time.Since(f.since) > f.desk.way.lease()+100*time.Millisecond && f.done == len(f.shops)-1 {
			sold, err := f.desk.sold(ctx)
			if err != nil {
				return err
			}
			f.result.Pause, f.result.Meanwhile = time.Since(f.since), sold-f.before
			f.stopped = nil
			s.tell(goOn)
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

// closeTime is the time for a shop to release its lock and exit.
const closeTime = 5 * time.Second

// close ends the input of all shops, which makes them exit. It kills the shops that
// do not exit in time.
func (f *floor) close() {
	for _, s := range f.shops {
		_ = s.in.Close()
		if s == f.stopped {
			_ = resume(s.cmd.Process)
		}
	}
	late, cancel := context.WithTimeout(context.Background(), closeTime)
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
