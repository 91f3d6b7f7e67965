package rueidis_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// openWith returns a function that opens drivers of one protocol.
func openWith(resp2 bool) drivertest.Open {
	return func(ctx context.Context, url string) (driver.Driver, error) {
		c, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		c.RESP2 = resp2
		c.Timeout, c.DialTimeout = drivertest.Timeout, drivertest.Timeout
		return rueidis.Open(ctx, c)
	}
}

func TestConformance(t *testing.T) {
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) { drivertest.Run(t, openWith(resp2)) })
	}
}

func BenchmarkChange(b *testing.B) { drivertest.BenchmarkChange(b, openWith(false)) }
