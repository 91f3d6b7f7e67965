package interop_test

import "regexp"

// deviates returns a deviation. A pattern may be empty. The deviation also explains its effects
// in later steps.
func deviates(why, redisson, holdfast string) *deviation {
	pattern := func(s string) *regexp.Regexp {
		if s == "" {
			return nil
		}
		return regexp.MustCompile(`^(?:` + s + `)$`)
	}
	return &deviation{why, pattern(redisson), pattern(holdfast)}
}

// Deviations of all locks or of all numbers.
var (
	latchKey = deviates("Redisson's unlock decrements the count and stores its answer for a retry; Holdfast sets the count and can be retried (ADR 3)",
		`passing redisson_unlock_latch:\S+:REQUEST\d+ string [01] for 20s`, ``)
	markKey = deviates("a marker key identifies a retried request (ADR 13)",
		``, `key holdfast:once:\S+:CLIENT:\d+ string \d+ .+ for 600s`)
)

var (
	shorterLease = deviates("entering again with a shorter lease does not shorten the longer one",
		`key \S+ hash OWN2=[12] for 10s`, `key \S+ hash OWN2=[12] for 60s`)
	fairLimits = deviates("waiters of Holdfast send heartbeats that extend their limit by 10 s, and the queue expires an hour after the last; waiters of Redisson set a limit once, 300 s after the previous one, and the queue does not expire (ADR 8)",
		`key redisson_lock_timeout:\S+ zset( OWN\d@NOW\+[36](30|45)s)+( for 60s)?|key redisson_lock_queue:\S+ list( OWN\d)+`,
		`key redisson_lock_(timeout:\S+ zset( OWN\d@NOW\+10s)+|queue:\S+ list( OWN\d)+) for 3600s|key holdfast:waiting:\S+ zset( OWN\d@NOW)+ for 25s`)
	noLease = deviates("without a lease there is nothing to release, and Holdfast sends nothing; Redisson calls the server and publishes a message",
		`publish redisson_rwlock:\S+ [01]`, `answer error`)
	addedLease = deviates("writing again raises the TTL to the lease; Redisson adds the lease to the TTL",
		`key \S+ hash OWN3:write=2 mode=write for 60s`, `key \S+ hash OWN3:write=2 mode=write for 30s`)
	lastLease = deviates("without a lease time the default applies; in Redisson, the last lease time of a thread with the same object",
		`key \S+:OWN2:rwlock_timeout:1 string 1 for 60s`, `key \S+:OWN2:rwlock_timeout:1 string 1 for 30s`)
	raised = deviates("a renewal extends the lock and does not shorten it (B9)",
		`key \S+ hash OWN1=1 OWN2=1 mode=read for 15s`, `key \S+ hash OWN1=1 OWN2=1 mode=read for 120s`)
	ownReader = deviates("a writer that reads is a reader with its own owner id (ADR 9)",
		`key \S+ hash (OWN1:write=1 )?OWN1=1.*|key \S+:OWN[12]:rwlock_timeout:1 .*|key \S+ hash OWN2=1 mode=read.*`,
		`key \S+ hash (OWN1:write=1 )?OWN2=1.*|key \S+:OWN[23]:rwlock_timeout:1 .*|key \S+ hash OWN3=1 mode=read.*`)
	downgrade = deviates("a downgrade wakes waiting readers (B23)",
		``, `publish redisson_rwlock:\S+ [10]`)
	writerLeft = deviates("the 0 is for a thread that has checked the lock and does not sleep yet: it would miss the 1 (ADR 26)",
		``, `publish redisson_rwlock:\S+ 0`)
	readersKeys = deviates("an unlock by force deletes the keys of readers",
		`key \S+:OWN\d:rwlock_timeout:\d string 1 for 30s`, ``)
	sameToken = deviates("entering again keeps the token",
		`key redisson_lock_token:\S+ string 3`, `key redisson_lock_token:\S+ string 2`)
	spinTells = deviates("a polling mutex is a mutex and publishes its release",
		``, `publish redisson_lock__channel:\S+ 0`)
	ownParts = deviates("each part has its own owner, and the fair part comes first (ADR 10)",
		`key \S+:1 hash OWN1=1 for 30s|key \S+:[12] hash OWN2=1 for 60s`,
		`key \S+:1 hash OWN2=1 for 30s|key \S+:1 hash OWN4=1 for 60s|key \S+:2 hash OWN3=1 for 60s`)
	lockObject = deviates("a held lock cannot be moved, and its expiry cannot be changed (ADR 18)",
		`answer true|key \S+ hash OWN1=1( for 60s)?|key redisson_\S+ (list OWN2|zset OWN2@NOW\+330s)( for 60s)?`,
		`answer error|key \S+ hash OWN1=1 for 30s|key redisson_\S+ list OWN2 for 3600s`)
	deletedQueue = deviates("delete is an unlock by force: the queue stays, and the next waiter is woken (ADR 18)",
		``, `publish redisson_lock__channel:\S+:OWN2 0|key \S+ hash OWN2=1 for 30s`)
	deletedTwice = deviates("the lock is under its old name; Redisson has moved it",
		`publish redisson_lock__channel:\S+:new\}? 0`, `publish redisson_lock__channel:\S+ 0`)
	keptToken = deviates("delete is an unlock by force: the counter stays, and waiters are woken (ADR 18)",
		``, `publish redisson_lock__channel:\S+ 0|key redisson_lock_token:\S+ string 1`)
)

var (
	keptTTL = deviates("adding and draining keep the TTL",
		`key \S+ string -?\d+`, `key \S+ string -?\d+ for 60s`)
	nothingOutOfNothing = deviates("draining creates no permits",
		`key \S+ string 0|answer -4`, `key \S+ string -4 for 60s|answer 0`)
	addedTotal = deviates("publishes the total; Redisson publishes the number of added permits",
		`publish redisson_sc:\S+ [12]`, `publish redisson_sc:\S+ \d`)
	noEnd = deviates("a lease is renewed or expires; it never lasts forever",
		`.*zset.*PERMIT\d@922337203685477.*`, `.*zset.*PERMIT\d@NOW\+30s.*`)
	logForgets = deviates("released permits are also removed from the log",
		`key \S+:permits(:CLIENT)? zset ENTRY1 .*ENTRY2 .*`, `key \S+:permits(:CLIENT)? zset ENTRY1 of 16 bytes \(2\)@NOW( for 65s)?`)
	clientRate = deviates("the keys of a client expire and store the rate that they belong to",
		`key \S+:(permits|value):CLIENT .*`, `key \S+:(permits|value):CLIENT .* for 65s|key \S+:value:CLIENT:rate string \d+ for (65|300)s`)
	valueTold = deviates("a change is told to those who watch the value",
		``, `publish holdfast:value:\S+ `)
	oldValue = deviates("the old value is kept for a retried request",
		``, `key holdfast:once:\S+:CLIENT:\d+:old string .* for 30s`)
)
