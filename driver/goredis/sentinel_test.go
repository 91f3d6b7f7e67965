package goredis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func sentinels(s *redistest.Sentinels) *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.MasterName(), SentinelAddrs: s.Addrs(), ReadTimeout: silence,
	})
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.Args("--notify-keyspace-events", "KEA"))
	w := watch(t, sentinels(s))
	if p := w.d.Place(key); p.Replicas != 2 {
		t.Errorf("place: %+v", p)
	}
	r := w.d.DoAcked(t.Context(), []driver.Call{addOne("acked")}, 2, 5*time.Second)[0]
	if r.Err != nil || r.Acked != 2 {
		t.Errorf("acknowledged by two: %+v", r)
	}
	w.moves(t, 30*time.Second, s.Failover)
	w.moves(t, 30*time.Second, func() *redistest.Server {
		old := s.Master()
		old.Kill()
		to, _ := s.AwaitMaster(old)
		return to
	})
}
