package goredis_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/goredis"
)

// owned is a driver that closes its client.
type owned struct {
	*goredis.Driver
	client redis.UniversalClient
}

func (o owned) Close() error {
	err := o.Driver.Close()
	_ = o.client.Close()
	return err
}

// openWith returns a function that opens drivers of one protocol.
func openWith(protocol int) drivertest.Open {
	return func(ctx context.Context, url string) (driver.Driver, error) {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		o.Protocol = protocol
		o.ReadTimeout, o.DialTimeout = drivertest.Timeout, drivertest.Timeout
		o.MaintNotificationsConfig = unannounced()
		client := redis.NewClient(o)
		d, err := goredis.New(ctx, client)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return owned{d, client}, nil
	}
}

func TestConformance(t *testing.T) {
	for name, protocol := range map[string]int{"RESP3": 3, "RESP2": 2} {
		t.Run(name, func(t *testing.T) { drivertest.Run(t, openWith(protocol)) })
	}
}

func BenchmarkChange(b *testing.B) { drivertest.BenchmarkChange(b, openWith(3)) }
