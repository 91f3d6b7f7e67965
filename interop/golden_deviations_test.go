package interop_test

import "regexp"

// deviates makes a deviation; a pattern may be empty. What follows from it in
// later steps is explained by it as well.
func deviates(why, redisson, holdfast string) *deviation {
	pattern := func(s string) *regexp.Regexp {
		if s == "" {
			return nil
		}
		return regexp.MustCompile(`^(?:` + s + `)$`)
	}
	return &deviation{why, pattern(redisson), pattern(holdfast)}
}

// What all locks, or all numbers, have in common.
var (
	latchKey = deviates("Redisson's unlock counts down, and keeps its answer in case it is sent again; ours sets the count, and may be sent again (ADR 3)",
		`passing redisson_unlock_latch:\S+:REQUEST\d+ string [01] for 20s`, ``)
	markKey = deviates("a request that is sent again is known by its mark (ADR 13)",
		``, `key holdfast:once:\S+:CLIENT:\d+ string \d+ .+ for 600s`)
)

var (
	shorterLease = deviates("entering again with a shorter lease does not cut the longer one",
		`key \S+ hash OWN2=[12] for 10s`, `key \S+ hash OWN2=[12] for 60s`)
	fairLimits = deviates("our waiters give signs of life, write 10 s from each, and let the queue end an hour after the last; Redisson's write 300 s once, each after the one before, and the queue has no end (ADR 8)",
		`key redisson_lock_timeout:\S+ zset( OWN\d@NOW\+[36](30|45)s)+( for 60s)?|key redisson_lock_queue:\S+ list( OWN\d)+`,
		`key redisson_lock_(timeout:\S+ zset( OWN\d@NOW\+10s)+|queue:\S+ list( OWN\d)+) for 3600s|key holdfast:waiting:\S+ zset( OWN\d@NOW)+ for 25s`)
	noLease = deviates("who holds nothing has nothing to release, and says nothing; Redisson asks the server, and tells the others",
		`publish redisson_rwlock:\S+ [01]`, `answer error`)
	addedLease = deviates("writing again raises the TTL to the lease, where Redisson adds the lease to it",
		`key \S+ hash OWN3:write=2 mode=write for 60s`, `key \S+ hash OWN3:write=2 mode=write for 30s`)
	lastLease = deviates("who gives no lease time has the default one; in Redisson, the last that a thread gave with the same object",
		`key \S+:OWN2:rwlock_timeout:1 string 1 for 60s`, `key \S+:OWN2:rwlock_timeout:1 string 1 for 30s`)
	raised = deviates("a renewal raises the end of the lock, and does not cut it (B9)",
		`key \S+ hash OWN1=1 OWN2=1 mode=read for 15s`, `key \S+ hash OWN1=1 OWN2=1 mode=read for 60s`)
	ownReader = deviates("a writer that reads is a reader with a name of its own (docs/protocol.md)",
		`key \S+ hash (OWN1:write=1 )?OWN1=1.*|key \S+:OWN[12]:rwlock_timeout:1 .*|key \S+ hash OWN2=1 mode=read.*`,
		`key \S+ hash (OWN1:write=1 )?OWN2=1.*|key \S+:OWN[23]:rwlock_timeout:1 .*|key \S+ hash OWN3=1 mode=read.*`)
	downgrade = deviates("those who wait to read are told of a downgrade (B23)",
		``, `publish redisson_rwlock:\S+ [10]`)
	writerLeft = deviates("the 0 is for a thread that has asked and does not sleep yet: it would miss the 1 (docs/protocol.md)",
		``, `publish redisson_rwlock:\S+ 0`)
	readersKeys = deviates("what is unlocked by force leaves no keys of readers behind",
		`key \S+:OWN\d:rwlock_timeout:\d string 1 for 30s`, ``)
	sameToken = deviates("entering again keeps the token",
		`key redisson_lock_token:\S+ string 3`, `key redisson_lock_token:\S+ string 2`)
	spinTells = deviates("a mutex that polls is a mutex, and tells those who listen",
		``, `publish redisson_lock__channel:\S+ 0`)
	ownParts = deviates("each part has an owner of its own, and the fair part comes first (ADR 10)",
		`key \S+:1 hash OWN1=1 for 30s|key \S+:[12] hash OWN2=1 for 60s`,
		`key \S+:1 hash OWN2=1 for 30s|key \S+:1 hash OWN4=1 for 60s|key \S+:2 hash OWN3=1 for 60s`)
	lockObject = deviates("nobody moves a lock under its holder, or changes its end (ADR 18)",
		`answer true|key \S+ hash OWN1=1( for 60s)?|key redisson_\S+ (list OWN2|zset OWN2@NOW\+330s)( for 60s)?`,
		`answer error|key \S+ hash OWN1=1 for 30s|key redisson_\S+ list OWN2 for 3600s`)
	deletedQueue = deviates("delete is an unlock by force: the queue stays, and the next one is called (ADR 18)",
		``, `publish redisson_lock__channel:\S+:OWN2 0|key \S+ hash OWN2=1 for 30s`)
	deletedTwice = deviates("the lock is where it was, and not where Redisson has moved it",
		`publish redisson_lock__channel:\S+:new\}? 0`, `publish redisson_lock__channel:\S+ 0`)
	keptToken = deviates("delete is an unlock by force: the counter stays, and those who wait are told (ADR 18)",
		``, `publish redisson_lock__channel:\S+ 0|key redisson_lock_token:\S+ string 1`)
)

var (
	keptTTL = deviates("adding and draining keep the TTL",
		`key \S+ string -?\d+`, `key \S+ string -?\d+ for 60s`)
	nothingOutOfNothing = deviates("draining makes no permits out of nothing",
		`key \S+ string 0|answer -4`, `key \S+ string -4 for 60s|answer 0`)
	addedTotal = deviates("publishes the total, where Redisson publishes how many came",
		`publish redisson_sc:\S+ [12]`, `publish redisson_sc:\S+ \d`)
	noEnd = deviates("a lease is renewed, or ends: it is never without an end",
		`.*zset.*PERMIT\d@922337203685477.*`, `.*zset.*PERMIT\d@NOW\+30s.*`)
	logForgets = deviates("what is given back leaves the log as well",
		`key \S+:permits(:CLIENT)? zset ENTRY1 .*ENTRY2 .*`, `key \S+:permits(:CLIENT)? zset ENTRY1 of 16 bytes \(2\)@NOW( for 65s)?`)
	clientRate = deviates("the keys of a client end by themselves, and say for which rate they are",
		`key \S+:(permits|value):CLIENT .*`, `key \S+:(permits|value):CLIENT .* for 65s|key \S+:value:CLIENT:rate string \d+ for (65|300)s`)
	oldValue = deviates("what was swapped is kept for a request that is sent again",
		``, `key holdfast:once:\S+:CLIENT:\d+:old string .* for 30s`)
)
