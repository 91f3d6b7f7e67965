package mutants

func init() { All = append(All, election...) }

// election holds the mutants of elections.
var election = []Mutant{
	{
		"a former leader can proclaim a value",
		"internal/script/lua/election_proclaim.lua", "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end", "",
		"internal/script", "TestElection$",
	},
	{
		"all leaders have the same term",
		"internal/script/lua/lib/counter.lua", "token = redis.call('incr', counter)\n", "token = tonumber(redis.call('get', counter)) or redis.call('incr', counter)\n",
		"test/behaviour", "TestElection$",
	},
	{
		"observers do not check when a lease ends",
		"internal/script/election.go", "Verdict{TTL: max(ttl, -1), Why:", "Verdict{TTL: min(ttl, -1), Why:",
		"internal/script", "TestElectionChange",
	},
	{
		"a leader that loses its lease does not lead again",
		"election.go", "again = errors.Is(released, ErrLost) && goesOn(released)", "again = errors.Is(released, ErrClosed)",
		"test/behaviour", "TestLeadAgain",
	},
	{
		"the context of a leader's work does not end with the loss",
		"election.go", "return false, fn(lease.Context())", "return false, fn(ctx)",
		"test/behaviour", "TestLead$",
	},
	{
		"a leader that learns of its loss keeps the lease",
		"election.go", "		lease.hold.Disown()\n", "",
		"test/behaviour", "TestProclaimTellsOfLoss",
	},
	{
		"a leader that could not proclaim itself keeps the lock",
		"election.go", "		_ = lease.Release(ctx)\n", "",
		"test/behaviour", "TestUnannouncedHooks",
	},
}
