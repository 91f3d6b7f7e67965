package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The clocks of two masters differ by 50 ms. A client that locks names on both
// must not carry the clock of one over to the other: the next client would get
// a lower token there, and a guard would refuse the only valid holder.
func TestSkewedMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithClock(), patient)
	ahead, other := tag(0, "ahead"), tag(1, "other")
	c.MasterOf(ahead).MoveClock(50 * time.Millisecond)
	w := &world{T: t, name: "cluster", url: c.URL(), cluster: c, prefix: other}
	x, y := w.open(long), w.open(long)
	token := func(client *holdfast.Client, name string) int64 {
		t.Helper()
		l, err := client.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.Token()
	}
	for range 20 {
		token(x, ahead)
		first := token(x, other)
		if second := token(y, other); second <= first {
			t.Fatalf("token %d after %d", second, first)
		}
	}
}
