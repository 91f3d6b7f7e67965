package cookbook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/object"
)

// process processes a delivery, unless it was processed before.
func process(ctx context.Context, client *holdfast.Client, id string, fn func(context.Context) error) error {
	record := object.NewBucket(client, "webhook:done:"+id, object.StringCodec{})
	return client.Mutex("webhook:"+id).Do(ctx, func(ctx context.Context) error {
		if _, done, err := record.Get(ctx); err != nil || done {
			return err
		}
		if err := fn(ctx); err != nil {
			return err // the sender will send it again
		}
		return record.Set(ctx, time.Now().UTC().Format(time.RFC3339), 7*24*time.Hour)
	}, holdfast.Wait(10*time.Second))
}

// receiveWebhook answers 200 if the delivery was processed, now or before. Otherwise the
// sender sends it again.
func receiveWebhook(client *holdfast.Client, fn func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := process(r.Context(), client, r.Header.Get("Webhook-Id"), func(ctx context.Context) error {
			return fn(r.WithContext(ctx))
		})
		switch {
		case errors.Is(err, holdfast.ErrInvalid): // the id cannot be a name
			http.Error(w, "invalid Webhook-Id", http.StatusBadRequest)
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
}

// processAtMostOnce records a delivery before it is processed.
func processAtMostOnce(ctx context.Context, client *holdfast.Client, id string, fn func(context.Context) error) error {
	record := object.NewBucket(client, "webhook:begun:"+id, object.StringCodec{})
	first, err := record.SetIfAbsent(ctx, time.Now().UTC().Format(time.RFC3339), 7*24*time.Hour)
	if err != nil || !first {
		return err
	}
	return fn(ctx)
}

// A delivery that two processes receive several times is processed once. One that failed is
// processed when it is sent again.
func TestWebhook(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		var processed atomic.Int32
		var failing atomic.Bool
		var processes []http.Handler
		for range 2 {
			processes = append(processes, receiveWebhook(s.newClient(), func(*http.Request) error {
				if failing.Load() {
					return errors.New("failed")
				}
				time.Sleep(20 * time.Millisecond)
				processed.Add(1)
				return nil
			}))
		}
		send := func(i int, id string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			r.Header.Set("Webhook-Id", id)
			w := httptest.NewRecorder()
			processes[i%2].ServeHTTP(w, r)
			return w.Code
		}
		for _, code := range together(6, func(i int) int { return send(i, "evt_1") }) {
			if code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		}
		if code, n := send(0, "evt_1"), processed.Load(); code != http.StatusOK || n != 1 {
			t.Errorf("status %d, processed %d times", code, n)
		}
		failing.Store(true)
		if code := send(0, "evt_2"); code != http.StatusServiceUnavailable {
			t.Errorf("status %d of a failure", code)
		}
		failing.Store(false)
		if code, n := send(1, "evt_2"), processed.Load(); code != http.StatusOK || n != 2 {
			t.Errorf("status %d, processed %d times, after a failure", code, n)
		}
		for _, id := range []string{"a\nb", "{"} {
			if code := send(0, id); code != http.StatusBadRequest {
				t.Errorf("status %d of the id %q", code, id)
			}
		}
		s.pass(t, 8*24*time.Hour, "webhook:done:evt_1", "webhook:done:evt_2")
		if n := s.do("EXISTS", "webhook:done:evt_1", "webhook:done:evt_2"); n != int64(0) {
			t.Errorf("%v records are left after a week", n)
		}
	})
}

// If a process dies between its work and the record, the work is done twice. If it dies
// between the record and its work, the work is not done.
func TestWebhookCrash(t *testing.T) {
	for _, test := range []struct {
		name    string
		process func(context.Context, *holdfast.Client, string, func(context.Context) error) error
		runs    int
	}{
		{"at least once", process, 2},
		{"at most once", processAtMostOnce, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, s *server) {
				runs, crashing := 0, s.newClient()
				_ = test.process(t.Context(), crashing, "evt_1", func(context.Context) error {
					runs++
					return crashing.Close()
				})
				for range 2 {
					if err := test.process(t.Context(), s.newClient(), "evt_1", func(context.Context) error { runs++; return nil }); err != nil {
						t.Error(err)
					}
				}
				if runs != test.runs {
					t.Errorf("processed %d times", runs)
				}
			})
		})
	}
}
