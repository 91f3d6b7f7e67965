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
		title: "set/a foreign TTL",
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
		title: "change/a foreign TTL",
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

// used is the limiter ten of which nothing is free for another 35 s.
var used = []string{rated(ten), "SET ./value 0", "ZADD ./permits +-25 @j:7*10"}

// ahead is the same, when a:1 has taken three for then.
var ahead = []string{rated(ten), "SET ./value -3", "ZADD ./permits +-25 @j:7*10", "ZADD ./permits +35 @a:1*3"}

const done = "holdfast:once:a:1 string 5 done, TTL 600s"

const (
	was    = "holdfast:once:a:1 string 5 set, TTL 600s"
	wasNot = "holdfast:once:a:1 string 5 kept, TTL 600s"
)

var limiterRows = append(limiterSetRows, []row{
	{title: "take/no rate", do: takeRate("a:1", 1, 0), reply: "[-1 0]"},
	{
		title: "take/half a rate",
		given: []string{"HSET N rate 10 interval 60000"},
		do:    takeRate("a:1", 1, 0), reply: "[-1 0]",
		state: []string{"N hash interval=60000 rate=10"},
	},
	{
		title: "take/a rate without a time to keep it",
		given: []string{"HSET N rate 10 interval 60000 type 0"},
		do:    takeRate("a:1", 1, 0), reply: "1",
		state: []string{"N hash interval=60000 rate=10 type=0", "permits zset @a:1*1+past", "value string 9"},
	},
	{
		title: "take/more than the rate",
		given: []string{rated(ten)},
		do:    takeRate("a:1", 11, asLong), reply: "[-2 10]",
		state: []string{rate(ten)},
	},
	{
		title: "take/first",
		given: []string{rated(ten)},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "take/what is left",
		given: []string{rated(ten), "SET ./value 3", "ZADD ./permits +-25 @j:7*7"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*7+past", "value string 0"},
	},
	{
		title: "take/taken before",
		given: []string{rated(ten), "SET ./value 7", "ZADD ./permits +-25 @a:1*3"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "take/taken ahead before",
		given: ahead,
		do:    takeRate("a:1", 3, 0), reply: "[1 40s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @j:7*10+past", "value string -3"},
	},
	{
		title: "take/not now",
		given: used,
		do:    takeRate("a:1", 3, 0), reply: "[0 40s 10]",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "take/ahead",
		given: used,
		do:    takeRate("a:1", 3, asLong), reply: "[1 40s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @j:7*10+past", "value string -3"},
	},
	{
		title: "take/ahead, in time",
		given: used,
		do:    takeRate("a:1", 3, seconds(45)), reply: "[1 40s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @j:7*10+past", "value string -3"},
	},
	{
		title: "take/ahead, too far",
		given: used,
		do:    takeRate("a:1", 3, seconds(25)), reply: "[0 40s 10]",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "take/ahead, after two",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-25 @b:1*4", "ZADD ./permits +-5 @j:7*6"},
		do:    takeRate("a:1", 5, asLong), reply: "[1 60s]",
		state: []string{rate(ten), "permits zset @a:1*5+60s @b:1*4+past @j:7*6+past", "value string -5"},
	},
	{
		title: "take/ahead, after one who takes ahead",
		given: ahead,
		do:    takeRate("b:1", 8, asLong), reply: "[1 100s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @b:1*8+100s @j:7*10+past", "value string -11"},
	},
	{
		title: "take/ahead, beside one who takes ahead",
		given: ahead,
		do:    takeRate("b:1", 7, asLong), reply: "[1 40s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @b:1*7+40s @j:7*10+past", "value string -10"},
	},
	{
		title: "take/all of it is over",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @j:7*10"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "take/some of it is over",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @b:1*4", "ZADD ./permits +-25 @j:7*6"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*6+past", "value string 1"},
	},
	{
		title: "take/not now, but some of it is over",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @b:1*2", "ZADD ./permits +-25 @j:7*8"},
		do:    takeRate("a:1", 3, 0), reply: "[0 40s 10]",
		state: []string{rate(ten), "permits zset @j:7*8+past", "value string 2"},
	},
	{
		title: "take/too little is free, and nothing was taken", // Redisson fails then
		given: []string{rated(ten), "SET ./value 2"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "take/less than nothing is free, and nothing was taken",
		given: []string{rated(ten), "SET ./value -20", "EXPIRE ./value 600"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7, TTL 600s"},
	},
	{
		title: "take/more is free than the rate",
		given: []string{rated(ten), "SET ./value 15", "ZADD ./permits +-25 @j:7*4"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*4+past", "value string 3"},
	},
	{
		title: "take/more would be free than the rate",
		given: []string{rated(ten), "SET ./value 8", "ZADD ./permits +-70 @b:1*6", "ZADD ./permits +-25 @j:7*4"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*4+past", "value string 3"},
	},
	{
		title: "take/no value stored",
		given: []string{rated(ten), "ZADD ./permits +-70 @b:1*6", "ZADD ./permits +-25 @j:7*4"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*4+past", "value string 3"},
	},
	{
		title: "take/no value stored, and a future grant",
		given: []string{rated(ten), "ZADD ./permits +-25 @j:7*8", "ZADD ./permits +35 @b:1*4"},
		do:    takeRate("a:1", 3, 0), reply: "[0 40s 10]",
		state: []string{rate(ten), "permits zset @b:1*4+40s @j:7*8+past", "value string -2"},
	},
	{
		title: "take/entries of old clients",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @old*3", "ZADD ./permits +-25 @j:7*7"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*7+past", "value string 0"},
	},
	{
		title: "take/ahead, after an old client",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-25 @old*10"},
		do:    takeRate("a:1", 3, asLong), reply: "[1 40s]",
		state: []string{rate(ten), "permits zset @a:1*3+40s @old*10+past", "value string -3"},
	},
	{
		title: "take/ahead, after a client whose clock is ahead",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +5 @j:7*10"},
		do:    takeRate("a:1", 3, asLong), reply: "[1 70s]",
		state: []string{rate(ten), "permits zset @a:1*3+70s @j:7*10+10s", "value string -3"},
	},
	{
		title: "take/after a client whose clock is behind",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-3600 @j:7*10"},
		do:    takeRate("a:1", 3, asLong), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "take/kept for a time",
		given: []string{rated(keptFor(ten, 120))},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(keptFor(ten, 120), ", TTL 120s"), "permits zset @a:1*3+past, TTL 120s", "value string 7, TTL 120s"},
	},
	{
		title: "take/kept until it may be used, and has been",
		given: []string{rated(keptFor(ten, 60)), "SET ./value 0", "ZADD ./permits +-25 @j:7*10"},
		do:    takeRate("a:1", 3, asLong), reply: "[1 40s]",
		state: []string{rate(keptFor(ten, 60), ", TTL 100s"), "permits zset @a:1*3+40s @j:7*10+past, TTL 100s", "value string -3, TTL 100s"},
	},
	{
		title: "take/as long as the rate",
		given: []string{rated(ten), "EXPIRE N 600"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten, ", TTL 600s"), "permits zset @a:1*3+past, TTL 600s", "value string 7, TTL 600s"},
	},
	{
		title: "take/as long as the rate, after others",
		given: []string{rated(ten), "EXPIRE N 600", "SET ./value 6", "ZADD ./permits +-25 @j:7*4"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten, ", TTL 600s"), "permits zset @a:1*3+past @j:7*4+past, TTL 600s", "value string 3, TTL 600s"},
	},
	{
		title: "take/some are over, and enough are free",
		given: []string{rated(ten), "SET ./value 5", "ZADD ./permits +-70 @b:1*2", "ZADD ./permits +-25 @j:7*3"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*3+past", "value string 4"},
	},
	{
		title: "take/more free than the rate",
		given: []string{rated(ten), "SET ./value 15", "ZADD ./permits +-25 @j:7*8"},
		do:    takeRate("a:1", 3, 0), reply: "[0 40s 10]",
		state: []string{rate(ten), "permits zset @j:7*8+past", "value string 2"},
	},
	{
		title: "take/entries without permits", // Redisson takes none if a program asks for none
		given: []string{rated(script.Rate{Permits: 1, Interval: time.Minute}), "SET ./value -1", "ZADD ./permits +-25 @j:7*1", "ZADD ./permits +35 @b:1*1", "ZADD ./permits +45 @c:1*0"},
		do:    takeRate("a:1", 1, 0), reply: "[0 100s 1]",
		state: []string{rate(script.Rate{Permits: 1, Interval: time.Minute}), "permits zset @b:1*1+40s @c:1*0+50s @j:7*1+past", "value string -1"},
	},
	{
		title: "take/without a look at the log",
		given: []string{rated(ten), "SET ./value 5", "ZADD ./permits +-70 @b:1*2", "ZADD ./permits +-25 @j:7*3"},
		do:    takeUnread("a:1", 3, 0), reply: "2", again: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @b:1*2+past @j:7*3+past", "value string 2"},
	},
	{
		title: "take/without a look at the log, and too little is free",
		given: []string{rated(ten), "SET ./value 2", "ZADD ./permits +-70 @b:1*5", "ZADD ./permits +-25 @j:7*3"},
		do:    takeUnread("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*3+past", "value string 4"},
	},
	{
		title: "take/without a look at the log, and more is free than the rate",
		given: []string{rated(ten), "SET ./value 11", "ZADD ./permits +-25 @j:7*3"},
		do:    takeUnread("a:1", 3, 0), reply: "1",
		state: []string{rate(ten), "permits zset @a:1*3+past @j:7*3+past", "value string 4"},
	},
	{
		title: "take/per client",
		given: []string{rated(tenOfEach), "SET ./value 1", "SET ./value:j 0", "ZADD ./permits:j +-25 @j:7*10"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{
			rate(tenOfEach), "permits:c zset @a:1*3+past, TTL 70s", "permits:j zset @j:7*10+past",
			"value string 1", "value:c string 7, TTL 70s", "value:c:rate string 10, TTL 70s", "value:j string 0",
		},
	},
	{
		title: "take/per client, ahead",
		given: []string{rated(tenOfEach), "SET ./value:c 0", "ZADD ./permits:c +-25 @b:1*10"},
		do:    takeRate("a:1", 3, asLong), reply: "[1 40s]",
		state: []string{rate(tenOfEach), "permits:c zset @a:1*3+40s @b:1*10+past, TTL 100s", "value:c string -3, TTL 100s", "value:c:rate string 10, TTL 100s"},
	},
	{
		title: "take/per client, after a higher rate", // another client has lowered it
		given: []string{rated(tenOfEach), "SET ./value:c:rate 20", "SET ./value:c 2", "ZADD ./permits:c +-70 @c:1*3", "ZADD ./permits:c +-25 @b:1*15"},
		do:    takeRate("a:1", 3, 0), reply: "[0 40s 10]",
		state: []string{rate(tenOfEach), "permits:c zset @b:1*15+past, TTL 70s", "value:c string -5, TTL 70s", "value:c:rate string 10, TTL 70s"},
	},
	{
		title: "take/per client, after a lower rate",
		given: []string{rated(tenOfEach), "SET ./value:c:rate 5", "SET ./value:c 1", "ZADD ./permits:c +-25 @b:1*4"},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(tenOfEach), "permits:c zset @a:1*3+past @b:1*4+past, TTL 70s", "value:c string 3, TTL 70s", "value:c:rate string 10, TTL 70s"},
	},
	{
		title: "take/per client, kept for a time",
		given: []string{rated(keptFor(tenOfEach, 120))},
		do:    takeRate("a:1", 3, 0), reply: "1",
		state: []string{rate(keptFor(tenOfEach, 120), ", TTL 120s"), "permits:c zset @a:1*3+past, TTL 120s", "value:c string 7, TTL 120s", "value:c:rate string 10, TTL 120s"},
	},
	{
		title: "take/memory full", full: true,
		given: []string{rated(ten), "SET ./value 7", "ZADD ./permits +-25 @j:7*3"},
		do:    takeRate("a:1", 3, 0), reply: "OOM",
		state: []string{rate(ten), "permits zset @j:7*3+past", "value string 7"},
	},
	{
		title: "take/another type",
		given: []string{"SET N x"},
		do:    takeRate("a:1", 3, 0), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "cancel/in time",
		given: ahead,
		do:    cancelRate("a:1", 3), reply: "1", again: "0",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "cancel/too late",
		given: []string{rated(ten), "SET ./value 7", "ZADD ./permits +-5 @a:1*3"},
		do:    cancelRate("a:1", 3), reply: "0",
		state: []string{rate(ten), "permits zset @a:1*3+past", "value string 7"},
	},
	{
		title: "cancel/another's",
		given: ahead,
		do:    cancelRate("b:1", 3), reply: "0",
		state: []string{rate(ten), "permits zset @a:1*3+40s @j:7*10+past", "value string -3"},
	},
	{title: "cancel/no rate", do: cancelRate("a:1", 3), reply: "0"},
	{
		title: "cancel/per client",
		given: []string{rated(tenOfEach), "SET ./value:c:rate 10", "SET ./value:c 7", "ZADD ./permits:c +35 @a:1*3", "EXPIRE ./value:c 600", "EXPIRE ./permits:c 600", "EXPIRE ./value:c:rate 600"},
		do:    cancelRate("a:1", 3), reply: "1", again: "0",
		state: []string{rate(tenOfEach), "value:c string 10, TTL 70s", "value:c:rate string 10, TTL 70s"},
	},
	{
		title: "cancel/memory full", full: true,
		given: ahead,
		do:    cancelRate("a:1", 3), reply: "1", again: "0",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "free/ahead",
		given: ahead,
		do:    freeRate("a:1", 3), reply: "1", again: "0",
		state: []string{rate(ten), "permits zset @j:7*10+past", "value string 0"},
	},
	{
		title: "free/late", // the permits were not used
		given: []string{rated(ten), "SET ./value 5", "ZADD ./permits +-5 @a:1*3", "ZADD ./permits +-5 @j:7*2"},
		do:    freeRate("a:1", 3), reply: "1", again: "0",
		state: []string{rate(ten), "permits zset @j:7*2+past", "value string 8"},
	},
	{
		title: "free/over and done with",
		given: []string{rated(ten), "SET ./value 8", "ZADD ./permits +-5 @j:7*2"},
		do:    freeRate("a:1", 3), reply: "0",
		state: []string{rate(ten), "permits zset @j:7*2+past", "value string 8"},
	},
	{
		title: "give back/some",
		given: used,
		do:    releaseRate("a:1:5", 3), reply: "1",
		state: []string{rate(ten), done, "permits zset @j:7*7+past", "value string 3"},
	},
	{
		title: "give back/those taken last, but no future grants",
		given: []string{rated(ten), "SET ./value -4", "ZADD ./permits +-25 @j:7*4", "ZADD ./permits +-15 @b:1*4", "ZADD ./permits +-5 @c:1*2", "ZADD ./permits +35 @a:1*4"},
		do:    releaseRate("a:1:5", 5), reply: "1",
		state: []string{rate(ten), done, "permits zset @a:1*4+40s @b:1*1+past @j:7*4+past", "value string 1"},
	},
	{
		title: "give back/more than the rate",
		given: used,
		do:    releaseRate("a:1:5", 30), reply: "1",
		state: []string{rate(ten), done, "value string 10"},
	},
	{
		title: "give back/what Java has given back",
		given: []string{rated(ten), "SET ./value 10", "ZADD ./permits +-25 @j:7*5", "ZADD ./permits +-5 @b:1*5"},
		do:    releaseRate("a:1:5", 5), reply: "1",
		state: []string{rate(ten), done, "permits zset @j:7*5+past", "value string 10"},
	},
	{
		title: "give back/what was not taken",
		given: []string{rated(ten)},
		do:    releaseRate("a:1:5", 3), reply: "1",
		state: []string{rate(ten), done, "value string 10"},
	},
	{
		title: "give back/while others take ahead",
		given: ahead,
		do:    releaseRate("a:1:5", 2), reply: "1",
		state: []string{rate(ten), done, "permits zset @a:1*3+40s @j:7*8+past", "value string -1"},
	},
	{
		title: "give back/what is over",
		given: []string{rated(ten), "SET ./value 0", "ZADD ./permits +-70 @j:7*10"},
		do:    releaseRate("a:1:5", 3), reply: "1",
		state: []string{rate(ten), done, "value string 10"},
	},
	{
		title: "give back/kept for a time",
		given: []string{rated(keptFor(ten, 120)), "SET ./value 0", "ZADD ./permits +-25 @j:7*10"},
		do:    releaseRate("a:1:5", 3), reply: "1",
		state: []string{rate(keptFor(ten, 120), ", TTL 120s"), done, "permits zset @j:7*7+past, TTL 120s", "value string 3, TTL 120s"},
	},
	{
		title: "give back/in a log of an early Redisson",
		given: []string{rated(ten), "SET ./value 3", "ZADD ./permits +-5 12345678"},
		do:    releaseRate("a:1:5", 3), reply: "ERR",
		state: []string{rate(ten), "permits zset 12345678+past", "value string 3"},
	},
	{title: "give back/no rate", do: releaseRate("a:1:5", 3), reply: "fatal", state: []string{"holdfast:once:a:1 string 5 no rate, TTL 600s"}},
}...)
