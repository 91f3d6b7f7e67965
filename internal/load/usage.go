package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Usage is what a server has done since its start, or between two times.
type Usage struct {
	Requests int64   // commands that clients have sent
	Pings    int64   // those of them that only keep a connection alive
	Commands int64   // requests, and those that scripts have called
	CPU      float64 // seconds
}

// Minus returns what has been done since before.
func (u Usage) Minus(before Usage) Usage {
	return Usage{u.Requests - before.Requests, u.Pings - before.Pings, u.Commands - before.Commands, u.CPU - before.CPU}
}

// onlySent are commands that no script calls. A name that ends in | has subcommands.
var onlySent = []string{
	"evalsha", "eval", "script|", "ping", "wait",
	"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe",
}

// UsageOf asks a server for the sections commandstats and cpu of INFO. The server counts a
// command that a script calls like a command that a client sends. So Requests has the commands
// that no script calls, and those that the clients send by themselves and call in no
// script: the caller names them. Only requests of the clients count, without those that a
// client library sends first on a connection.
func UsageOf(info func(section string) (any, error), sends ...string) (u Usage, err error) {
	err = eachLine(info, "commandstats", func(name, value string) error {
		command, known := strings.CutPrefix(name, "cmdstat_")
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if !known || slices.Contains([]string{"info", "replconf", "psync", "flushall", "hello"}, command) || strings.HasPrefix(command, "client|") {
			return nil
		}
		n, err := strconv.ParseInt(calls, 10, 64)
		u.Commands += n
		sent := func(c string) bool {
			return c == command || strings.HasSuffix(c, "|") && strings.HasPrefix(command, c)
		}
		if slices.ContainsFunc(onlySent, sent) || slices.Contains(sends, command) {
			u.Requests += n
		}
		if command == "ping" {
			u.Pings += n
		}
		return err
	})
	if err != nil {
		return u, err
	}
	return u, eachLine(info, "cpu", func(name, value string) error {
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			return nil
		}
		seconds, err := strconv.ParseFloat(value, 64)
		u.CPU += seconds
		return err
	})
}

// eachLine calls a function with the fields of a section of INFO.
func eachLine(info func(string) (any, error), section string, do func(name, value string) error) error {
	reply, err := info(section)
	for row := range strings.Lines(fmt.Sprint(reply)) {
		name, value, ok := strings.Cut(strings.TrimSpace(row), ":")
		if ok && err == nil {
			err = do(name, value)
		}
	}
	return err
}
