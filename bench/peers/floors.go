package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Two floors: the least that a lock and its release can cost with rueidis. Each is two
// bare EVALSHA. The first pair of scripts changes the hash that Redisson and Holdfast
// use, the second pair changes a string.
var (
	hashLock = rueidis.NewLuaScript(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
		redis.call('hincrby', KEYS[1], ARGV[1], 1); redis.call('pexpire', KEYS[1], 30000); return nil end
		return redis.call('pttl', KEYS[1])`)
	hashUnlock = rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
		if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
		redis.call('del', KEYS[1]); redis.call('publish', KEYS[1], '0'); return 1`)
	setLock   = rueidis.NewLuaScript(`return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000)`)
	setUnlock = rueidis.NewLuaScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)
)

// openConn opens a client with one connection, as the driver of Holdfast does.
func openConn(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
}

type bareClient struct {
	rueidis.Client
	take, free *rueidis.Lua
	owners     *atomic.Int64
}

type bareLock struct {
	client      bareClient
	keys, owner []string
}

func openBare(take, free *rueidis.Lua) func(context.Context, string) (client, error) {
	return func(_ context.Context, addr string) (client, error) {
		c, err := openConn(addr)
		return bareClient{c, take, free, new(atomic.Int64)}, err
	}
}

func (c bareClient) lock(name string) lock {
	return bareLock{c, []string{name}, []string{strconv.FormatInt(c.owners.Add(1), 10)}}
}

func (c bareClient) close() { c.Close() }

// acquire does not look at the reply: a floor serves names that are not contended.
func (l bareLock) acquire(ctx context.Context) error { return l.run(ctx, l.client.take) }
func (l bareLock) release(ctx context.Context) error { return l.run(ctx, l.client.free) }

func (l bareLock) run(ctx context.Context, script *rueidis.Lua) error {
	if err := script.Exec(ctx, l.client.Client, l.keys, l.owner).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return nil
}

// The sketch is an upper bound for locks whose waiters queue at the server. The release
// pops the head of the queue, writes its owner into the lock and sends one message to its
// client. It has no leases. A client that crashes keeps the lock or blocks the queue.
var (
	sketchLock = rueidis.NewLuaScript(`if redis.call('set', KEYS[1], ARGV[1], 'NX') then return 1 end
		redis.call('rpush', KEYS[2], ARGV[1]); return 0`)
	sketchUnlock = rueidis.NewLuaScript(`local owner = redis.call('lpop', KEYS[2])
		if not owner then redis.call('del', KEYS[1]); return 0 end
		redis.call('set', KEYS[1], owner)
		local client, goroutine = string.match(owner, '(.*)/(.*)')
		redis.call('publish', client, goroutine); return 1`)
)

// The leased sketch is the same with what Redisson keeps: the lock is a hash with its owner and
// a hold count, it has a lease time, and a release checks the owner. A hand-off takes eleven
// commands, four to queue and seven to release. Neither sketch is changed any more: figures of
// different days are relative to them.
var (
	leasedSketchLock = rueidis.NewLuaScript(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[1], 1)
			redis.call('pexpire', KEYS[1], 30000)
			return 1
		end
		redis.call('rpush', KEYS[2], ARGV[1])
		return -redis.call('pttl', KEYS[1])`)
	leasedSketchUnlock = rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
		if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
		redis.call('del', KEYS[1])
		local owner = redis.call('lpop', KEYS[2])
		if not owner then return 1 end
		redis.call('hset', KEYS[1], owner, 1)
		redis.call('pexpire', KEYS[1], 30000)
		local client, goroutine = string.match(owner, '(.*)/(.*)')
		redis.call('publish', client, goroutine)
		return 1`)
)

type sketchClient struct {
	rueidis.Client
	take, free *rueidis.Lua
	id         string // also its channel
	stop       context.CancelFunc

	mu    sync.Mutex
	locks []*sketchLocker
}

type sketchLocker struct {
	client  *sketchClient
	keys    []string
	owner   []string
	granted chan struct{}
}

func openSketch(take, free *rueidis.Lua) func(context.Context, string) (client, error) {
	return func(ctx context.Context, addr string) (client, error) { return openSketchClient(ctx, addr, take, free) }
}

func openSketchClient(ctx context.Context, addr string, take, free *rueidis.Lua) (client, error) {
	c, err := openConn(addr)
	if err != nil {
		return nil, err
	}
	id, err := c.Do(ctx, c.B().ClientId().Build()).AsInt64()
	if err != nil {
		return nil, err
	}
	listen, stop := context.WithCancel(context.Background())
	s := &sketchClient{Client: c, take: take, free: free, id: fmt.Sprint("sketch:", id), stop: stop}
	subscribed := make(chan struct{})
	listen = rueidis.WithOnSubscriptionHook(listen, func(rueidis.PubSubSubscription) { close(subscribed) })
	go func() {
		_ = c.Receive(listen, c.B().Subscribe().Channel(s.id).Build(), func(m rueidis.PubSubMessage) {
			i, _ := strconv.Atoi(m.Message)
			s.mu.Lock()
			l := s.locks[i]
			s.mu.Unlock()
			l.granted <- struct{}{}
		})
	}()
	<-subscribed
	return s, nil
}

func (c *sketchClient) lock(name string) lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &sketchLocker{c, []string{name, name + ":queue"}, []string{fmt.Sprint(c.id, "/", len(c.locks))}, make(chan struct{}, 1)}
	c.locks = append(c.locks, l)
	return l
}

func (c *sketchClient) close() { c.stop(); c.Close() }

func (l *sketchLocker) acquire(ctx context.Context) error {
	// A request without a deadline: if its reply is lost, so is the place in the queue.
	n, err := l.client.take.Exec(context.WithoutCancel(ctx), l.client, l.keys, l.owner).AsInt64()
	if err != nil || n == 1 {
		return err
	}
	select {
	case <-l.granted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *sketchLocker) release(ctx context.Context) error {
	return l.client.free.Exec(ctx, l.client, l.keys, l.owner).Error()
}
