package mutants

func init() { All = append(All, semaphores...) }

// semaphores holds the mutants of semaphores with and without leases, of
// latches, and of their numbered requests.
var semaphores = []Mutant{
	// Numbered requests
	{
		"a repeated request runs again",
		"internal/script/lua/lib/once.lua", "if last == tonumber(number) then return reply end", "",
		"internal/script", "TestSemaphore$",
	},
	{
		"a late request runs although a later one has followed",
		"internal/script/lua/lib/once.lua", "if last > tonumber(number) then return 'late' end", "",
		"internal/script", "TestSemaphore$",
	},
	{
		"a usual request for permits that is repeated runs again",
		"internal/script/lua/lib/acquire.lua", "tonumber(last) < tonumber(ARGV[2])", "true",
		"internal/script", "TestSemaphore$",
	},
	{
		"a usual release that is repeated runs again",
		"internal/script/lua/lib/release.lua", "tonumber(last) < tonumber(ARGV[2])", "true",
		"internal/script", "TestPermits$",
	},
	{
		"permits cannot be released while the server is out of memory",
		"internal/script/lua/lib/release.lua", "redis.pcall('incrby'", "redis.call('incrby'",
		"internal/script", "TestPermits$",
	},
	{
		"a request whose permits were not taken looks granted",
		"internal/script/lua/lib/acquire.lua", "ARGV[2] .. ' failed'", "ARGV[2] .. ' taken'",
		"test/faults", "TestForbiddenCommandsLoseNoPermit",
	},
	{
		"a late request runs although it was undone",
		"internal/script/lua/semaphore_undo.lua", "remember(KEYS[2], ARGV[2], 'undone', ARGV[3])", "if known then remember(KEYS[2], ARGV[2], 'undone', ARGV[3]) end",
		"internal/script", "TestSemaphore$",
	},
	{
		"a refusal is not stored",
		"internal/script/lua/semaphore_set.lua", "remember(KEYS[2], ARGV[2], 'exists', ARGV[3])", "",
		"internal/script", "TestLateCopyOfRefusedRequest",
	},
	{
		"the sequence of a request in doubt is used again",
		"internal/engine/claim.go", "if !a.traits.Numbered || !granted && c.remains.Open {", "if !a.traits.Numbered {",
		"internal/engine", "TestSequences",
	},
	{
		"a caller that releases a permit acquires it again before waiters",
		"internal/engine/rivals.go", "	if n == 0 {\n", "	if n <= 0 || true {\n",
		"internal/engine", "TestTakeYields",
	},
	{
		"a request is abandoned after some attempts",
		"internal/engine/once.go", "case later != nil && !errors.Is(err, ErrRefused):", "case later != nil && errors.Is(err, ErrClosed):",
		"internal/engine", "TestOnceInsists",
	},

	// Order inside a process
	{
		"newcomers take permits that others wait for",
		"internal/engine/turn.go", "a.turn.gate == nil || a.turn.gate.idle() {", "true {",
		"internal/engine", "TestTakeInOrder",
	},
	{
		"a try takes permits that others wait for",
		"internal/engine/acquire.go", "if a.once && queue == script.InOrder && a.e.hasQueue(a.k.Gate()) {", "if false {",
		"internal/engine", "TestTakeInOrder",
	},

	// Waiting
	{
		"waiters do not retry when their subscription is restored",
		"internal/wait/hub.go", "func (l handler) Subscribed(channel string, _ uint64) {", "func (l handler) Subscribed(channel string, gen uint64) {\n	if gen > 1 {\n		return\n	}\n",
		"internal/engine", "TestReconnected",
	},

	// LeasedSemaphore
	{
		"a lease of permits is removed before its end",
		"internal/script/lua/lib/permits.lua", "local back = over(KEYS[2], now)", "local back = over(KEYS[2], now + 1)",
		"internal/script", "TestPermitsInStillTime",
	},
	{
		"permits whose lease is over do not become free",
		"internal/script/lua/lib/permits.lua", "restore(KEYS[1], back, publish, KEYS[3])\n", "",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"permits are counted twice if the request is repeated",
		"internal/script/lua/lib/permits.lua", "if not redis.call('zscore', KEYS[2], id) then missing = missing + 1 end", "missing = missing + 1",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"a late copy of a request shortens the lease of permits",
		"internal/script/lua/lib/permits.lua", "if tonumber(redis.call('zscore', KEYS[2], id) or 0) < now + lease then", "if true then",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"a repeated request for permits has new ids",
		"internal/script/leased.go", "[]byte(owner + \":\" + strconv.Itoa(i))", "[]byte(time.Now().String() + strconv.Itoa(i))",
		"internal/script", "TestPermitIDs",
	},
	{
		"permits whose lease is over are renewed",
		"internal/script/lua/leased_renew.lua", "if not ends or ends <= now then", "if not ends then",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"a renewal does not extend permits",
		"internal/script/lua/leased_renew.lua", "redis.call('zadd', key, ends, id)", "redis.call('zadd', key, ends - ARGV[2 * i - 1], id)",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"only the first permit of a lease is renewed",
		"internal/script/lua/leased_renew.lua", "for _, id in ipairs(renewed[i] == 1 and ids or {}) do\n    local had", "for _, id in ipairs(renewed[i] == 1 and { ids[1] } or {}) do\n    local had",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"a lease that has lost a permit keeps the others",
		"internal/engine/hold.go", "if !late && queue != script.InOrder {", "if !late {",
		"test/behaviour", "TestPermitsRestComesBack",
	},
	{
		"permits whose lease is over are released as if they were held",
		"internal/script/lua/lib/permits.lua", "if ends > now then held = held + 1 end", "held = held + 1",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"some permits are released although one is not held",
		"internal/script/lua/leased_return.lua", "if not ends or ends <= now then", "if false then",
		"internal/script", "TestLeasedPermits$",
	},
	{
		"a call that waits for its turn stays in the queue at the server",
		"internal/engine/turn.go", "	if a.claim.remains.Entry {\n		a.leaveQueue()\n	}\n", "",
		"test/behaviour", "TestLeasedQueueOfMany",
	},
}
