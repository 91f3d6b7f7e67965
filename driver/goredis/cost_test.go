package goredis_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// confirmations are the channels that were confirmed.
type confirmations chan string

func (c confirmations) Subscribed(channel string, _ uint64) { c <- channel }
func (confirmations) Message(string, string)                {}
func (confirmations) Lost([]string, error)                  {}

// BenchmarkChange subscribes and unsubscribes one channel beside others, after
// all of them were subscribed at once.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := redistest.Start(b)
			client := single(s.Addr())
			defer client.Close()
			d, err := goredis.New(b.Context(), client)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			h := make(confirmations, n)
			l := d.Listen(h)
			var all []string
			for i := range n {
				all = append(all, fmt.Sprint("c", i))
			}
			l.Subscribe(all...)
			for range n {
				<-h
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := fmt.Sprint("d", i%1000)
				l.Subscribe(c)
				<-h
				l.Unsubscribe(c)
			}
		})
	}
}
