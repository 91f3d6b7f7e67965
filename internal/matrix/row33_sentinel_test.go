package matrix_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The password of the user that clients come as.
const secret = "open-sesame-4711"

// A diary is what a client has logged.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// The server turns a client away in the middle of a hold: the holder is told in
// time, the client is well again when the server is, and the password appears
// nowhere.
func TestRow33TurnedAway(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name     string
		do, undo []string
		kick     bool // connections are closed, too
		want     error
	}{
		{"maxclients", []string{"CONFIG", "SET", "maxclients", "1"}, []string{"CONFIG", "SET", "maxclients", "1000"}, true, holdfast.ErrUnavailable},
		{"revoked", []string{"ACL", "SETUSER", "app", "-@all"}, []string{"ACL", "SETUSER", "app", "+@all"}, false, holdfast.ErrRefused},
		{"rotated", []string{"ACL", "SETUSER", "app", "resetpass", ">another"}, []string{"ACL", "SETUSER", "app", "resetpass", ">" + secret}, true, holdfast.ErrRefused},
	}
	test := func(f fleet) {
		f.patient()
		s := f.master()
		for _, fault := range faults {
			f.run(fault.name, func(f fleet) {
				log := new(diary)
				var clients []*holdfast.Client
				var holders []*holder
				for i, w := range f {
					clients = append(clients, w.openAt(enduring(w.url), func(o *holdfast.Options) {
						o.RetryTimeout = 10 * time.Second
						o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					}))
					holders = append(holders, w.keep(clients[i], w.key("held")))
				}
				s.Do(f[0], fault.do...)
				if fault.kick {
					s.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				}
				for i, w := range f {
					_, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
					if !errors.Is(err, fault.want) {
						w.errorf("TryLock: %v, want %v", err, fault.want)
					}
					if err != nil && strings.Contains(err.Error(), secret) {
						w.errorf("the password is in an error: %v", err)
					}
				}
				for _, h := range holders {
					h.lost(lease+slack, holdfast.LossExpired, holdfast.LossUnreplicated)
					h.inTime()
				}
				s.Do(f[0], fault.undo...)
				for i, w := range f {
					// Somebody may still hear of an attempt to connect that was
					// made before.
					w.eventually(2*slack, "the client is well again", func() bool {
						l, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
						return err == nil && l.Release(context.Background()) == nil
					})
					r := w.rival(clients[i], w.key("held"))
					r.await(time.Now().Add(time.Second))
					r.after(holders[i])
					r.release()
				}
				if strings.Contains(log.String(), secret) {
					f[0].errorf("the password is in the log:\n%s", log)
				}
			})
		}
		empty(f[0], s)
	}
	user := redistest.WithUser("app", secret)
	alone(t, test, user)
	inFleet(t, modes, test, user)
}
