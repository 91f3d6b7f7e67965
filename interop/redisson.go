package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
)

// A Config is a configuration of Redisson, with the keys of its YAML file.
type Config map[string]any

// Single configures one server with few connections, because opening connections
// takes time.
func Single(addr string) Config {
	return Config{"singleServerConfig": map[string]any{
		"address": "redis://" + addr, "connectionMinimumIdleSize": 4, "subscriptionConnectionMinimumIdleSize": 1,
	}}
}

// Cluster configures the nodes of a cluster.
func Cluster(addrs ...string) Config {
	return Config{"clusterServersConfig": map[string]any{
		"nodeAddresses": urls(addrs), "masterConnectionMinimumIdleSize": 2, "slaveConnectionMinimumIdleSize": 1,
		"subscriptionConnectionMinimumIdleSize": 1, "scanInterval": 500,
	}}
}

// Sentinel configures a master that sentinels guard.
func Sentinel(master string, addrs ...string) Config {
	return Config{"sentinelServersConfig": map[string]any{
		"masterName": master, "sentinelAddresses": urls(addrs), "masterConnectionMinimumIdleSize": 2,
		"slaveConnectionMinimumIdleSize": 1, "subscriptionConnectionMinimumIdleSize": 1,
		"scanInterval": 500, "checkSentinelsList": false,
	}}
}

// MasterReplicas configures a master and its replicas.
func MasterReplicas(master string, replicas ...string) Config {
	return Config{"masterSlaveServersConfig": map[string]any{
		"masterAddress": "redis://" + master, "slaveAddresses": urls(replicas), "masterConnectionMinimumIdleSize": 2,
		"slaveConnectionMinimumIdleSize": 1, "subscriptionConnectionMinimumIdleSize": 1,
	}}
}

// Replicated configures servers. One of them is the master.
func Replicated(addrs ...string) Config {
	return Config{"replicatedServersConfig": map[string]any{
		"nodeAddresses": urls(addrs), "masterConnectionMinimumIdleSize": 2, "slaveConnectionMinimumIdleSize": 1,
		"subscriptionConnectionMinimumIdleSize": 1, "scanInterval": 500,
	}}
}

func urls(addrs []string) (urls []string) {
	for _, a := range addrs {
		urls = append(urls, "redis://"+a)
	}
	return urls
}

// With sets a key of the configuration and returns c. A key "section.name" sets a key
// in a section.
func (c Config) With(key string, value any) Config {
	section := map[string]any(c)
	if s, k, ok := strings.Cut(key, "."); ok {
		section, key = c[s].(map[string]any), k
	}
	section[key] = value
	return c
}

var numbers atomic.Int64

// ref returns a new name for an object in a peer.
func ref(kind string) string { return fmt.Sprint(kind, numbers.Add(1)) }

// A Redisson is a client that runs in a peer.
type Redisson struct {
	Object
	ID string // the first half of its owner ids
}

// Open creates a client.
func (p *Peer) Open(c Config) (*Redisson, error) {
	text, err := json.Marshal(c) // JSON is valid YAML
	if err != nil {
		return nil, err
	}
	return p.OpenYAML(string(text))
}

// OpenYAML creates a client from the text of a configuration file.
func (p *Peer) OpenYAML(text string) (*Redisson, error) {
	config, client := Object{p, ref("config")}, Object{p, ref("client")}
	a := p.Do(Call{On: "org.redisson.config.Config", Method: "fromYAML", Args: []any{text}, As: config.ref})
	if a.Err() == nil {
		a = p.Do(Call{On: "org.redisson.Redisson", Method: "create", Args: []any{config}, As: client.ref})
	}
	if a.Err() != nil {
		return nil, a.Err()
	}
	r := &Redisson{Object: client}
	a = r.Do("", "getId")
	r.ID, _ = a.Value.(string)
	return r, a.Err()
}

// Close shuts the client down.
func (r *Redisson) Close() error { return r.Do("", "shutdown", 0, 2, "SECONDS").Err() }

// Get returns an object of the client, such as getLock with its name.
func (r *Redisson) Get(getter string, args ...any) (Object, error) {
	return r.Keep("", getter, args...)
}

// An Object is an object that a peer keeps, usually one of Redisson.
type Object struct {
	peer *Peer
	ref  string
}

// Peer returns the process that has the object.
func (o Object) Peer() *Peer { return o.peer }

// Static calls a static method of a class and keeps the object that it returns.
func (p *Peer) Static(class, method string, args ...any) (Object, error) {
	o := Object{p, ref("object")}
	return o, p.Do(Call{On: class, Method: method, Args: args, As: o.ref}).Err()
}

// MarshalJSON encodes an object as an argument of a call.
func (o Object) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"ref": o.ref})
}

// Call returns a method call for [Peer.Send] or [Object.Repeat].
func (o Object) Call(thread, method string, args ...any) Call {
	return Call{Thread: thread, On: o.ref, Method: method, Args: args}
}

// Do calls a method in a thread and waits for the answer.
func (o Object) Do(thread, method string, args ...any) Answer {
	return o.peer.Do(o.Call(thread, method, args...))
}

// Go calls a method in a thread without waiting. The channel receives the answer.
func (o Object) Go(thread, method string, args ...any) <-chan Answer {
	return o.peer.Send(o.Call(thread, method, args...))
}

// Keep calls a method in a thread and keeps the object that it returns.
func (o Object) Keep(thread, method string, args ...any) (Object, error) {
	c := o.Call(thread, method, args...)
	c.As = ref("object")
	return Object{o.peer, c.As}, o.peer.Do(c).Err()
}

// Repeat makes the calls in sequence in one thread, repeats this several times, and
// waits for the answer.
func (o Object) Repeat(thread string, times int, calls ...Call) Answer {
	return o.peer.Do(Call{Thread: thread, Times: times, Calls: calls})
}
