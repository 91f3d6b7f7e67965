package mutants

func init() { All = append(All, limiter...) }

// limiter holds the mutants of rate limiters.
var limiter = []Mutant{
	{
		"permits are free again before their interval is over",
		"internal/script/lua/lib/ratelimiter.lua", "string.format('%.0f', now - l.interval - 1)", "string.format('%.0f', now - l.interval / 2)",
		"test/conformance", "TestRL15NoSecondAboveTheRate",
	},
	{
		"permits are free a millisecond before the interval is over",
		"internal/script/lua/lib/ratelimiter.lua", "string.format('%.0f', now - l.interval - 1)", "string.format('%.0f', now - l.interval)",
		"internal/script", "TestRateInStillTime",
	},
	{
		"entries that are over stay while permits are free",
		"internal/script/lua/lib/allow.lua", " and at > now - interval - 1", " and at > 0",
		"internal/script", "TestLimiter$",
	},
	{
		"a usual request that is repeated takes permits twice",
		"internal/script/lua/lib/allow.lua", "entry) == 1 then", "entry) >= 0 then",
		"internal/script", "TestRateInStillTime",
	},
	{
		"a repeated request is refused after it was granted",
		"internal/script/lua/lib/allow.lua", "longest >= 0 and not redis.call('zscore', KEYS[4], entry) then", "longest >= 0 then",
		"internal/script", "TestRateInStillTime",
	},
	{
		"a request that can wait long enough is refused",
		"internal/script/lua/lib/allow.lua", "wait > longest and ", "",
		"internal/script", "TestRateInStillTime",
	},
	{
		"a refusal says when the first permits are free, not enough ones",
		"internal/script/lua/lib/allow.lua", "free + n >= want and ", "",
		"internal/script", "TestRateInStillTime",
	},
	{
		"a count above the rate is used",
		"internal/script/lua/lib/allow.lua", " and free <= rate", "",
		"internal/script", "TestLimiter$",
	},
	{
		"the log does not get the TTL of the rate",
		"internal/script/lua/lib/allow.lua", " and redis.call('pttl', KEYS[1]) < 0", "",
		"internal/script", "TestLimiter$",
	},
	{
		"the log of a rate limiter is read once only",
		"internal/script/ratelimiter.go", "at == 0 || clock.Early()-at >= logLife", "at == 0",
		"internal/script", "TestReadsOfLog",
	},
	{
		"a client goes on without the log after a refusal",
		"internal/script/ratelimiter.go", "		l.logRead.Store(0)\n", "",
		"internal/script", "TestReadsOfLog",
	},
	{
		"entries that are over do not count if the log is not read",
		"internal/script/lua/lib/allow.lua", "if ARGV[4] ~= '0' or free < want then", "if ARGV[4] ~= '0' then",
		"internal/script", "TestLimiter$",
	},
	{
		"permits are taken from a log of another program",
		"internal/script/lua/lib/allow.lua", " and #first == 5 + (string.byte(first) or 0)", "",
		"internal/script", "TestHostileData/^ratelimiter_take",
	},
	{
		"permits that are taken in advance are not counted",
		"internal/script/lua/ratelimiter_take.lua", "redis.call('decrby', l.free, want)", "if at == now then redis.call('decrby', l.free, want) end",
		"internal/script", "TestRateInStillTime",
	},
	{
		"permits are taken in advance without a limit",
		"internal/script/lua/ratelimiter_take.lua", "if lack > 0 or longest >= 0 and at - now > longest then", "if lack > 0 then",
		"internal/script", "TestRateInStillTime",
	},
	{
		"returned permits become free a second time when they are over",
		"internal/script/lua/ratelimiter_release.lua", "  redis.call('zrem', l.log, log[i])\n", "",
		"internal/script", "TestRateInStillTime",
	},
	{
		"a repeated request returns permits twice",
		"internal/script/lua/ratelimiter_release.lua", "local known = recall(KEYS[7], ARGV[2])", "local known",
		"internal/script", "TestRateInStillTime",
	},
	{
		"an acquisition that gives up keeps a grant that it does not use",
		"internal/engine/acquisition.go", "a.claim.remains.Open = true // it was granted, but is not used", "// it was granted, but is not used",
		"internal/engine", "TestTakeAhead",
	},
	{
		"a request that cannot be granted in time waits nevertheless",
		"internal/engine/acquisition.go", "case a.once || v.Final:", "case a.once:",
		"internal/engine", "TestTakeAhead",
	},
	{
		"what is promised for later is used at once",
		"internal/engine/acquisition.go", "err == nil && g.After > 0 && !a.r.Ahead", "err == nil && g.After > 0 && a.r.Ahead",
		"internal/engine", "TestTakeAhead",
	},
	{
		"a refused permit looks like a taken one",
		"ratelimiter.go", "		return max(Remaining(err), time.Millisecond), nil\n", "		return 0, nil\n",
		"test/behaviour", "TestTake$",
	},

	// Refusals without a request
	{
		"a refusal outlasts the time until a permit is free",
		"internal/engine/refusals.go", "sent + min(v.TTL, refusalLife)", "sent + refusalLife",
		"internal/engine", "TestRefusalLasts",
	},
	{
		"a refusal hides what other clients change for long",
		"internal/engine/refusals.go", "sent + min(v.TTL, refusalLife)", "sent + v.TTL",
		"internal/engine", "TestRefusalLasts",
	},
	{
		"the time of a refusal counts from its answer",
		"internal/engine/acquisition.go", "a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.sent, changes)", "a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.received, changes)",
		"internal/engine", "TestRefusalOfSlowServer",
	},
	{
		"a refusal outlasts a change by the same client",
		"internal/engine/refusals.go", " || last.changes != place.changes.Load()", "",
		"internal/engine", "TestRefusalEndsWithChange",
	},
	{
		"a refusal outlasts an order of the same client",
		"internal/engine/once.go", "	e.refusals.changed(call.Keys)\n", "",
		"internal/engine", "TestRefusalEndsWithChange",
	},
	{
		"a refusal outlasts a cancellation by the same client",
		"ratelimiter.go", "		r.limiter.client.engine.Changed(r.limiter.name)\n", "",
		"test/behaviour", "TestRefusalSeesOwnChanges",
	},
	{
		"a late answer counts as a refusal after a change",
		"internal/engine/acquisition.go", "a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.sent, changes)", "a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.sent, changes-changes+a.e.refusals.changes(a.traits.Lasting))",
		"internal/engine", "TestRefusalEndsWithChange",
	},
	{
		"fewer permits than were refused are refused",
		"internal/engine/refusals.go", "l.Wants < last.Wants || ", "",
		"internal/engine", "TestRefusalConcerns",
	},
	{
		"more permits than the rate are refused as if they were free later",
		"internal/engine/refusals.go", " || l.Wants > last.most", "",
		"internal/engine", "TestRefusalConcerns",
	},
	{
		"a limiter that does not exist is refused after it was created",
		"internal/engine/refusals.go", " || v.Missing != \"\"", "",
		"internal/engine", "TestNoRefusal",
	},
	{
		"a rate is not declared while permits are refused",
		"internal/engine/refusals.go", "busy != nil && r.Declare != nil", "busy != nil && r.Declare != nil && false",
		"internal/engine", "TestRefusalAndDeclaration",
	},
}
