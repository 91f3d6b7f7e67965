package rueidis_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A deployment is several servers, and how to reach them.
type deployment struct {
	url     string
	one     string // a URL that names only one of them; "" where that means something else
	wrong   []string
	secrets []string
	servers []*redistest.Server
	masters int
}

// Every topology with its own kinds of credentials, in both protocols.
func TestTopologies(t *testing.T) {
	for name, start := range map[string]func(*testing.T) deployment{
		"replicated": replicatedWithPassword,
		"sentinel":   sentinelsWithEverything,
		"cluster":    clusterWithUser,
		"clusterTLS": clusterWithTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dep := start(t)
			for _, s := range dep.servers {
				s.Do(t, "CONFIG", "SET", "notify-keyspace-events", "KA")
			}
			t.Run("RESP3", func(t *testing.T) { exercise(t, dep, dep.url) })
			t.Run("RESP2", func(t *testing.T) { exercise(t, dep, with(t, dep.url, "protocol", "2")) })
			if dep.one != "" {
				t.Run("one", func(t *testing.T) { exercise(t, dep, dep.one) })
			}
			t.Run("wrong", func(t *testing.T) { refuse(t, dep) })
		})
	}
}

func replicatedWithPassword(t *testing.T) deployment {
	r := redistest.StartReplicated(t, 1, redistest.WithPassword("pa ss/1"))
	hosts := addrs(r.Nodes())
	slices.Reverse(hosts) // the master comes last
	list := strings.Join(hosts, ",")
	return deployment{
		url:     "redis://:pa%20ss%2F1@" + list,
		wrong:   []string{"redis://:mistaken@" + list, "redis://" + list},
		secrets: []string{"mistaken"},
		servers: r.Nodes(), masters: 1,
	}
}

func sentinelsWithEverything(t *testing.T) deployment {
	s := redistest.StartSentinels(t, redistest.WithReplicas(1), redistest.WithTLS(),
		redistest.WithPassword("datasecret"), redistest.WithSentinelPassword("watcher", "watchsecret"))
	for _, w := range s.Sentinels() { // no failover here, also if the machine stands still
		w.Do(t, "SENTINEL", "SET", s.MasterName(), "down-after-milliseconds", "60000")
	}
	return deployment{
		url: s.URL(),
		one: strings.Replace(s.URL(), strings.Join(s.Addrs(), ","), s.Addrs()[2], 1),
		wrong: []string{
			strings.Replace(s.URL(), "datasecret", "mistaken", 1),
			with(t, s.URL(), "sentinel_password", "mistaken"),
			with(t, s.URL(), "sentinel_username", "nobody"),
		},
		secrets: []string{"datasecret", "watchsecret", "mistaken"},
		servers: s.Nodes(), masters: 1,
	}
}

func clusterWithUser(t *testing.T) deployment {
	c := redistest.StartCluster(t, redistest.WithUser("app", "appsecret"), calm)
	hosts := addrs(c.Nodes())
	return deployment{
		url:     c.URL(),
		one:     "redis-cluster://app:appsecret@" + hosts[5], // a replica
		wrong:   []string{strings.Replace(c.URL(), "appsecret", "mistaken", 1)},
		secrets: []string{"appsecret", "mistaken"},
		servers: c.Nodes(), masters: 3,
	}
}

func clusterWithTLS(t *testing.T) deployment {
	c := redistest.StartCluster(t, redistest.WithTLS(), redistest.WithPassword("datasecret"), calm)
	hosts := addrs(c.Nodes())
	return deployment{
		url:     c.URL(),
		one:     strings.Replace(c.URL(), strings.Join(hosts, ","), hosts[0], 1),
		wrong:   []string{strings.Replace(c.URL(), "datasecret", "mistaken", 1)},
		secrets: []string{"datasecret", "mistaken"},
		servers: c.Nodes(), masters: 3,
	}
}

var exercises struct {
	sync.Mutex
	n int
}

// exercise does everything once that a driver can do.
func exercise(t *testing.T, dep deployment, url string) {
	d := connect(t, url)
	exercises.Lock()
	exercises.n++
	prefix := fmt.Sprint("x", exercises.n, ":")
	exercises.Unlock()

	if p := d.Place(prefix + "0"); p.Replicas != 1 && p.Replicas >= 0 || p.Node == "" { // what counts as granted hangs on it
		t.Errorf("before any call, a key lives at %+v, want a node with one replica, or not yet known", p)
	}
	var calls []driver.Call
	nodes := make(map[string]bool)
	for i := range 30 {
		key := fmt.Sprint(prefix, i)
		calls = append(calls, addOne(key))
		nodes[d.Place(key).Node] = true
		if r, err := d.Do(t.Context(), calls[i]); err != nil || r.Int != 1 {
			t.Fatalf("%s: %v, %v", key, r, err)
		}
	}
	if len(nodes) != dep.masters {
		t.Errorf("keys live at %d nodes, want %d", len(nodes), dep.masters)
	}
	for i, r := range d.DoMany(t.Context(), calls) {
		if r.Err != nil || r.Reply.Int != 2 {
			t.Errorf("call %d of many: %+v", i, r)
		}
	}
	for i, r := range d.DoAcked(t.Context(), calls, 1, 5*time.Second) {
		if r.Err != nil || r.Reply.Int != 3 || r.Acked != 1 {
			t.Errorf("call %d of those to be acknowledged: %+v", i, r)
		}
	}
	facts := d.Facts(t.Context())
	if len(facts) != dep.masters {
		t.Errorf("facts of %d servers, want %d", len(facts), dep.masters)
	}
	for _, f := range facts {
		if f.Err != nil || !nodes[f.Node] || f.Role != "master" || f.Replicas != 1 || f.Cluster != (dep.masters > 1) || f.Settings["appendonly"] != "no" {
			t.Errorf("facts: %+v", f)
		}
	}
	listen(t, dep, d, prefix)
}

// listen hears what is published in all families of channels.
func listen(t *testing.T, dep deployment, d *rueidis.Driver, prefix string) {
	h := drivertest.NewRecorder()
	l := d.Listen(h)
	for i := range 6 {
		key := fmt.Sprint(prefix, "heard", i)
		channel := "talk:{" + key + "}"
		l.Subscribe(channel)
		h.Want(t, "+"+channel)
		l.Subscribe("__keyspace@0__:" + key)
		h.Want(t, "+__keyspace@0__:"+key)
		home := at(t, dep.servers, d.Place(key).Node)
		home.Do(t, "PUBLISH", channel, "plain")
		h.Want(t, channel+":plain")
		if dep.masters > 1 {
			for _, s := range dep.servers { // from all of the cluster
				s.Do(t, "PUBLISH", channel, s.Addr())
				h.Want(t, channel+":"+s.Addr())
			}
			for _, command := range redistest.PublishCommands() {
				home.Do(t, command, channel, command)
				h.Want(t, channel+":"+command)
			}
		}
		if _, err := d.Do(t.Context(), addOne(key)); err != nil {
			t.Fatal(err)
		}
		h.Want(t, "__keyspace@0__:"+key+":incrby")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if h.Losses() > 0 {
		t.Error("subscriptions were lost while nothing happened")
	}
}

// refuse opens URLs with wrong credentials.
func refuse(t *testing.T, dep deployment) {
	for i, url := range dep.wrong {
		c, err := rueidis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		bear(&c)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		d, err := rueidis.Open(ctx, c)
		cancel()
		if err == nil {
			_ = d.Close()
			t.Errorf("URL %d: opened", i)
			continue
		}
		if driver.ClassOf(err) != driver.Fatal {
			t.Errorf("URL %d: %v is %v, want fatal", i, err, driver.ClassOf(err))
		}
		for _, s := range dep.secrets {
			if strings.Contains(err.Error(), s) {
				t.Errorf("URL %d: the error gives a password away", i)
			}
		}
	}
}
