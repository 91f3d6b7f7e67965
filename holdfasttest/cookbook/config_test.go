package cookbook

import (
	"context"
	"errors"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/object"
)

// A Config is the configuration that all processes share.
type Config struct {
	Workers int
	Banner  string
}

func configOf(client *holdfast.Client) *object.Bucket[Config] {
	return object.NewBucket(client, "config:shop", object.JSONCodec[Config]{})
}

// follow keeps current up to date until ctx is done.
func follow(ctx context.Context, client *holdfast.Client, current *atomic.Pointer[Config]) error {
	for config, err := range configOf(client).Watch(ctx) {
		switch {
		case errors.Is(err, holdfast.ErrUnavailable), errors.Is(err, object.ErrCodec):
			log.Printf("the configuration stays as it is: %v", err)
		case err != nil:
			return err
		case config.Exists:
			current.Store(&config.Value)
		}
	}
	return nil
}

// setWorkers changes one field. Changes of other fields at the same time are kept.
func setWorkers(ctx context.Context, client *holdfast.Client, n int) error {
	_, err := configOf(client).Update(ctx, func(config Config, _ bool) (Config, error) {
		config.Workers = n
		return config, nil
	})
	return err
}

// Two processes follow the configuration. A value that cannot be read, and one that is
// deleted, change nothing.
func TestConfig(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, cancel := context.WithCancel(t.Context())
		var current [2]atomic.Pointer[Config]
		ended := make(chan bool, len(current))
		for i := range current {
			client := s.newClient()
			go func() {
				ended <- follow(ctx, client, &current[i]) == nil
			}()
		}
		await := func(want Config) {
			t.Helper()
			for i := range current {
				eventually(t, func() bool { c := current[i].Load(); return c != nil && *c == want })
			}
		}
		admin := s.newClient()
		if err := configOf(admin).Set(t.Context(), Config{Workers: 1, Banner: "hello"}, 0); err != nil {
			t.Fatal(err)
		}
		await(Config{1, "hello"})
		if err := setWorkers(t.Context(), admin, 7); err != nil {
			t.Fatal(err)
		}
		await(Config{7, "hello"})

		s.do("SET", "config:shop", "this is no JSON")
		time.Sleep(2 * poll)
		await(Config{7, "hello"})
		s.do("DEL", "config:shop")
		time.Sleep(2 * poll)
		await(Config{7, "hello"})
		if err := setWorkers(t.Context(), admin, 8); err != nil {
			t.Fatal(err)
		}
		await(Config{8, ""})
		cancel()
		for range current {
			if !receive(t, ended) {
				t.Error("a follower has ended with an error")
			}
		}
	})
}

// Two processes that change different fields at the same time do not undo each other.
func TestConfigUpdate(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		clients := []*holdfast.Client{s.newClient(), s.newClient()}
		for _, err := range together(20, func(i int) error {
			if i%2 == 0 {
				return setWorkers(t.Context(), clients[0], 5)
			}
			_, err := configOf(clients[1]).Update(t.Context(), func(config Config, _ bool) (Config, error) {
				config.Banner += "."
				return config, nil
			})
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		if c, ok, err := configOf(clients[0]).Get(t.Context()); !ok || err != nil || c != (Config{5, ".........."}) {
			t.Errorf("%+v, %v, %v", c, ok, err)
		}
	})
}
