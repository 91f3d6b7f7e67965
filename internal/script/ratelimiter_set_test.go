package script_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// limiterSetRows are those of the scripts that set a rate and look at it.
var limiterSetRows = []row{
	{
		title: "set new/none",
		do:    setRate(script.WhenNew, ten), reply: "1",
		state: []string{rate(ten), was},
	},
	{
		title: "set new/some",
		given: used,
		do:    setRate(script.WhenNew, keptFor(tenOfEach, 120)), reply: "0",
		state: []string{rate(ten), wasNot, "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "set new/kept for a time",
		do:    setRate(script.WhenNew, keptFor(ten, 120)), reply: "1",
		state: []string{rate(keptFor(ten, 120), ", TTL 120s"), was},
	},
	{
		title: "set new/something is left of an old one",
		given: []string{"SET ./value 0", "ZADD ./permits +-25 @j:7*10"},
		do:    setRate(script.WhenNew, ten), reply: "1",
		state: []string{rate(ten), was},
	},
	{
		title: "set/forget",
		given: append([]string{"SET ./value:j 0"}, used...),
		do:    setRate(script.Always, tenOfEach), reply: "1",
		state: []string{rate(tenOfEach), was, "value:j string 0"},
	},
	{
		title: "set/keep no longer",
		given: []string{rated(keptFor(ten, 120)), "EXPIRE N 100"},
		do:    setRate(script.Always, ten), reply: "1",
		state: []string{rate(ten), was},
	},
	{
		title: "set/somebody else's TTL",
		given: []string{rated(ten), "EXPIRE N 600"},
		do:    setRate(script.Always, ten), reply: "1",
		state: []string{rate(ten, ", TTL 600s"), was},
	},
	{title: "change/none", do: setRate(script.WhenOld, ten), reply: "0", state: []string{wasNot}},
	{
		title: "change/more",
		given: used,
		do:    setRate(script.WhenOld, script.Rate{Permits: 15, Interval: time.Minute}), reply: "1",
		state: []string{rate(script.Rate{Permits: 15, Interval: time.Minute}), was, "permits zset @j:7*10+past", "value string 5"},
	},
	{
		title: "change/less",
		given: used,
		do:    setRate(script.WhenOld, script.Rate{Permits: 4, Interval: time.Minute}), reply: "1",
		state: []string{rate(script.Rate{Permits: 4, Interval: time.Minute}), was, "permits zset @j:7*10+past", "value string -6"},
	},
	{
		title: "change/shorter",
		given: used,
		do:    setRate(script.WhenOld, script.Rate{Permits: 10, Interval: seconds(20)}), reply: "1",
		state: []string{rate(script.Rate{Permits: 10, Interval: seconds(20)}), was, "value string 10"},
	},
	{
		title: "change/longer",
		given: used,
		do:    setRate(script.WhenOld, script.Rate{Permits: 10, Interval: seconds(600)}), reply: "1",
		state: []string{rate(script.Rate{Permits: 10, Interval: seconds(600)}), was, "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "change/kind",
		given: used,
		do:    setRate(script.WhenOld, tenOfEach), reply: "1",
		state: []string{rate(tenOfEach), was},
	},
	{
		title: "change/keep for a time",
		given: used,
		do:    setRate(script.WhenOld, keptFor(ten, 120)), reply: "1",
		state: []string{rate(keptFor(ten, 120), ", TTL 120s"), was, "permits zset @j:7*10+past, TTL 120s", "value string 0, TTL 120s"},
	},
	{
		title: "change/somebody else's TTL",
		given: []string{rated(ten), "EXPIRE N 600", "SET ./value 0", "ZADD ./permits +-25 @j:7*10"},
		do:    setRate(script.WhenOld, ten), reply: "1",
		state: []string{rate(ten, ", TTL 600s"), was, "permits zset @j:7*10+past, TTL 600s", "value string 0, TTL 600s"},
	},
	{title: "look/none", do: inspectRate, reply: "[]"},
	{
		title: "look/new",
		given: []string{rated(keptFor(tenOfEach, 120))},
		do:    inspectRate, reply: "[10 60s 1 120s 10]",
		state: []string{rate(keptFor(tenOfEach, 120))},
	},
	{
		title: "look/over", // and forget it
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @b:1*4", "ZADD ./permits +-25 @j:7*6"},
		do:    inspectRate, reply: "[10 60s 0 0 4]",
		state: []string{rate(ten), "permits zset @j:7*6+past", "value string 4"},
	},
	{
		title: "look/others take ahead",
		given: ahead,
		do:    inspectRate, reply: "[10 60s 0 0 0]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @j:7*10+past", "value string -3"},
	},
	{
		title: "look/too little is free, and nothing was taken",
		given: []string{rated(ten), "SET ./value 2"},
		do:    inspectRate, reply: "[10 60s 0 0 10]",
		state: []string{rate(ten), "value string 2"},
	},
	{
		title: "look/memory full", full: true,
		given: used,
		do:    inspectRate, reply: "[10 60s 0 0 0]",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
}
