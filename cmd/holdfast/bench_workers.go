package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/section"
)

// A benchRequest is the request to a worker process. The worker starts when it reads
// a second value, and stops at the end of its input. The URL is sent this way, not
// as an argument, because it may contain a password.
type benchRequest struct {
	URL, Config string
	Job         benchJob
}

// benchMessage is a message from a worker: that it is ready, its progress, or its
// result.
type benchMessage struct {
	Locks  int64 // granted by the server so far
	Result *benchResult
}

// benchWorker is the hidden command that bench runs in its worker processes.
func benchWorker(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-worker",
		Hidden: true,
		Short:  "Run one process of bench",
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var request benchRequest
			in, out := json.NewDecoder(a.in), json.NewEncoder(a.out)
			if err := in.Decode(&request); err != nil {
				return usage("bench-worker is internal: run holdfast bench instead")
			}
			a.target.url, a.target.config = request.URL, request.Config
			sections := make([]section.Section, len(request.Job.Names))
			if section.Sharing {
				var err error
				if sections, err = section.Map(os.NewFile(benchSections, "sections"), len(sections)); err != nil {
					return err
				}
			}
			load, err := request.Job.prepare(ctx, &a.target, sections)
			if err != nil {
				return err
			}
			defer load.close()
			_ = out.Encode(benchMessage{})
			var begin bool
			if err := in.Decode(&begin); err != nil {
				return &exit{interrupted, nil}
			}
			go func() {
				_ = in.Decode(&begin) // returns when the parent closes the input
				cancel()
			}()
			var running atomic.Int64
			var reporting sync.WaitGroup
			done := make(chan struct{})
			reporting.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(100 * time.Millisecond):
						_ = out.Encode(benchMessage{Locks: running.Load()})
					}
				}
			})
			r, err := load.run(ctx, &running)
			close(done)
			reporting.Wait()
			if err := errors.Join(ctx.Err(), err); err != nil {
				return err
			}
			return out.Encode(benchMessage{Locks: running.Load(), Result: &r})
		}),
	}
}

// benchSections is the file that a worker inherits. All workers share the sections in
// it, if the system permits.
const benchSections = 3

// workers runs the jobs, each in a process of its own. They start together. It adds up
// their results.
func (b *bench) workers(ctx context.Context, jobs []benchJob, running *atomic.Int64) (total benchResult, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var files []*os.File
	if section.Sharing {
		f, err := section.Create(b.names)
		if err != nil {
			return total, err
		}
		defer func() { _ = f.Close() }()
		files = append(files, f)
	}
	results, errs := make([]benchResult, len(jobs)), make([]error, len(jobs))
	var all, ready sync.WaitGroup
	ready.Add(len(jobs))
	progress := sync.OnceValue(func() (end func()) { return b.progress("locks  ", running, b.time) })
	defer func() { progress()() }()
	begin := func() { ready.Wait(); progress() }
	for i, job := range jobs {
		all.Go(func() {
			results[i], errs[i] = b.worker(ctx, job, files, running, sync.OnceFunc(ready.Done), begin)
			if errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	for i, r := range results {
		if errs[i] != nil && !errors.Is(errs[i], context.Canceled) {
			return benchResult{}, errs[i]
		}
		total.add(r)
	}
	return total, errors.Join(errs...)
}

// worker runs one process. It calls ready once, also on an error, and starts the
// measurement when begin returns.
func (b *bench) worker(ctx context.Context, job benchJob, files []*os.File, running *atomic.Int64, ready, begin func()) (benchResult, error) {
	defer ready()
	program, err := os.Executable()
	if err != nil {
		return benchResult{}, err
	}
	cmd := exec.CommandContext(ctx, program, "bench-worker")
	cmd.ExtraFiles = files // the first one is benchSections
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return benchResult{}, err
	}
	cmd.Cancel = in.Close // the worker releases its locks and exits
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return benchResult{}, err
	}
	if err := cmd.Start(); err != nil {
		return benchResult{}, err
	}
	requests, messages := json.NewEncoder(in), json.NewDecoder(out)
	_ = requests.Encode(benchRequest{b.target.address(), b.target.config, job})
	var result *benchResult
	var reported int64
	for first := true; ; first = false {
		var n benchMessage
		if err := messages.Decode(&n); err != nil {
			break // the worker reports errors on standard error
		}
		if first {
			ready()
			begin()
			_ = requests.Encode(true)
		}
		running.Add(n.Locks - reported)
		reported = n.Locks
		if n.Result != nil {
			result = n.Result
		}
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return benchResult{}, ctx.Err()
	case err != nil || result == nil:
		text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "holdfast: ")
		if text == "" && err != nil {
			text = err.Error() // the worker was killed
		}
		return benchResult{}, &exit{max(cmd.ProcessState.ExitCode(), failed), fmt.Errorf("a bench process failed: %s", text)}
	}
	return *result, nil
}
