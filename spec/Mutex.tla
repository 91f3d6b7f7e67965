-------------------------------- MODULE Mutex --------------------------------
(* A mutex on one server, with leases, a watchdog, grants by a release and hand-off
   inside a process. README.md says what is modelled and how to run it.

   Time is relative. Tick ages everything by one unit: the lease at the server, what
   a client believes of it, and every message on its way. No clock is shared. Every
   message may take any time, overtake others, or get lost. *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Clients,   \* processes
    L,         \* lease of a grant that was asked for, and of a renewal
    G,         \* lease of a grant by a release, until the grantee renews it
    Slice,     \* hand-offs inside a process per grant
    MaxNet,    \* messages on their way at a time
    Calls,     \* calls that may begin; 0 is no bound
    Crashes,   \* processes that may die
    Failovers, \* changes of the server
    Strict,    \* grants count when the replica has them
    Lossy,     \* messages may be lost
    Calm,      \* a calm run: messages take no time, but grants may be lost
    Bug        \* the guard that is left out, or "none"

VARIABLES
    holder,  \* the owner in the server's hash, or None
    ttl,     \* how long the server keeps it
    queue,   \* owners that wait, first come first
    plain,   \* the last release granted to none of those that waited
    term,    \* which server it is
    replica, \* what the replica has of holder, ttl and queue
    net,     \* messages on their way
    st,      \* of each client: idle, waiting, holding, dead
    left,    \* of each client: how long it believes to hold the lock
    age,     \* of each client that waits: how long ago its call began
    hand,    \* of each client: hand-offs since the grant
    calls, crashes, failovers

server == <<holder, ttl, queue, plain, term, replica>>
client == <<st, left, age, hand>>
counts == <<calls, crashes, failovers>>
vars == <<server, net, client, counts>>

(* Each acquisition has an owner of its own. Only the current one of a client matters
   to it; all earlier ones are the same to the model. *)
None == <<"none", "none">>
Me(c) == <<c, "now">>
Past(c) == <<c, "past">>
Client(o) == o[1]

NoReplica == [holder |-> None, ttl |-> 0, queue |-> <<>>]
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Range(s) == {s[i] : i \in 1..Len(s)}
Remove(s, o) == SelectSeq(s, LAMBDA x : x # o)

(* Messages. A request is live until its client gives up on it. After that it may still
   be executed, but its reply is dropped. The age of a request counts from when it was
   sent; its reply keeps it. *)
Message(kind, o, live, a) == [kind |-> kind, o |-> o, live |-> live, age |-> a]
Request(kind, o) == Message(kind, o, kind # "release", 0)
Grant(o) == Message("grant", o, TRUE, 0)
Replies == {"granted", "renewed"}

(* What is left of a client's messages when it gives up on what it has asked for. A late
   renewal only lets the server keep a lock for longer: it may as well be lost. *)
Abandon(n, o) == {IF m.o = o /\ m.kind = "acquire" THEN Message("acquire", o, FALSE, 0) ELSE m :
                    m \in {x \in n : ~(x.o = o /\ x.kind \in Replies \cup {"renew"})}}
Outstanding(c) == \E m \in net : m.o = Me(c) /\ m.live /\ m.kind # "grant"

Init ==
    /\ holder = None /\ ttl = 0 /\ queue = <<>> /\ plain = FALSE /\ term = 0
    /\ replica = NoReplica
    /\ net = {}
    /\ st = [c \in Clients |-> "idle"] /\ left = [c \in Clients |-> 0]
    /\ age = [c \in Clients |-> 0] /\ hand = [c \in Clients |-> 0]
    /\ calls = 0 /\ crashes = 0 /\ failovers = 0

-----------------------------------------------------------------------------
(* Clients *)

(* A call begins, with a new owner. What is about the one before is of the past. *)
Begin(c) ==
    LET old(o) == IF o = Me(c) /\ Bug # "owner used again" THEN Past(c) ELSE o
        aged(s) == LET r == Remove(s, Past(c)) IN [i \in 1..Len(r) |-> old(r[i])]
        renamed(s) == IF Me(c) \in Range(s) THEN aged(s) ELSE s
    IN /\ st[c] = "idle"
       /\ Cardinality(net) < MaxNet
       /\ (Calls = 0 /\ UNCHANGED calls) \/ (calls < Calls /\ calls' = calls + 1)
       /\ Calm => ~\E m \in net : Client(m.o) = c
       /\ holder' = old(holder)
       /\ queue' = renamed(queue)
       /\ replica' = [replica EXCEPT !.holder = old(@), !.queue = renamed(@)]
       /\ net' = {[m EXCEPT !.o = old(m.o)] : m \in net} \cup {Request("acquire", Me(c))}
       /\ st' = [st EXCEPT ![c] = "waiting"]
       /\ UNCHANGED <<ttl, plain, term, left, age, hand, crashes, failovers>>

(* A waiter asks again: after a message, or because it has waited for long. *)
Look(c) ==
    /\ st[c] = "waiting" /\ ~Outstanding(c)
    /\ Cardinality(net) < MaxNet
    /\ Calm => net = {} \/ Me(c) \notin Range(queue)  \* seldom
    /\ Bug # "no poll"
    /\ Bug = "only the first polls" => queue # <<>> /\ queue[1] = Me(c)
    /\ net' = net \cup {Request("acquire", Me(c))}
    /\ age' = IF Bug = "grant counts from the last look" THEN [age EXCEPT ![c] = 0] ELSE age
    /\ UNCHANGED <<server, st, left, hand, counts>>

(* No answer: the client gives up on the request. *)
Timeout(c) ==
    /\ ~Calm
    /\ Outstanding(c)
    /\ net' = Abandon(net, Me(c))
    /\ UNCHANGED <<server, client, counts>>

Hold(c, length) ==
    /\ left' = [left EXCEPT ![c] = length]
    /\ st' = [st EXCEPT ![c] = "holding"]
    /\ age' = [age EXCEPT ![c] = 0]
    /\ UNCHANGED hand

(* The client returns to where it has nothing. *)
Rest(c) ==
    /\ left' = [left EXCEPT ![c] = 0]
    /\ st' = [st EXCEPT ![c] = "idle"]
    /\ age' = [age EXCEPT ![c] = 0]
    /\ hand' = [hand EXCEPT ![c] = 0]

(* The lease counts from when the request was sent. *)
ReceiveGranted(c) ==
    /\ st[c] = "waiting"
    /\ \E m \in net :
        /\ m.kind = "granted" /\ m.o = Me(c)
        /\ Hold(c, IF Bug = "lease counts from the reply" THEN L ELSE L - m.age)
        /\ net' = net \ {m}
    /\ UNCHANGED <<server, counts>>

(* A grant by a release. It is for the owner that waits, or it is passed on. Its lease
   counts from when the call began: no release can have granted the lock to its owner
   earlier. Where nothing is left then, and where a replica must have the grant, the
   client asks before it uses the grant: the server then grants what it has granted
   already. *)
ReceiveGrant(c) ==
    /\ \E m \in net :
        /\ m.kind = "grant" /\ Client(m.o) = c
        /\ IF (m.o = Me(c) \/ Bug = "grant of an old owner") /\ st[c] = "waiting"
           THEN LET length == CASE Bug = "grant counts from the message" -> G
                                [] Bug = "grant taken for a whole lease" -> L - age[c]
                                [] OTHER -> G - age[c]
                IN IF (~Strict \/ Bug = "grant without the replica") /\ length > 0
                   THEN Hold(c, length) /\ net' = Abandon(net \ {m}, Me(c))
                   ELSE UNCHANGED client /\ net' = (net \ {m}) \cup (IF Outstanding(c) THEN {} ELSE {Request("acquire", Me(c))})
           ELSE /\ net' = (net \ {m}) \cup (IF m.o = Me(c) /\ st[c] # "idle" THEN {} ELSE {Request("release", m.o)})
                /\ UNCHANGED client
    /\ UNCHANGED <<server, counts>>

(* The watchdog. *)
Renew(c) ==
    /\ st[c] = "holding" /\ left[c] \in 1..(L - 1) /\ ~Outstanding(c)
    /\ Cardinality(net) < MaxNet
    /\ net' = net \cup {Request("renew", Me(c))}
    /\ left' = IF Bug = "unanswered renewal counts" THEN [left EXCEPT ![c] = L] ELSE left
    /\ UNCHANGED <<server, st, age, hand, counts>>

ReceiveRenewed(c) ==
    /\ st[c] = "holding"
    /\ \E m \in net :
        /\ m.kind = "renewed" /\ m.o = Me(c)
        /\ net' = net \ {m}
        /\ LET length == IF Bug = "lease counts from the reply" THEN L ELSE L - m.age
           IN left' = [left EXCEPT ![c] = IF left[c] = 0 THEN 0 ELSE Max(left[c], length)]
    /\ UNCHANGED <<server, st, age, hand, counts>>

(* Another goroutine of the process gets the lock, without a request. *)
HandOff(c) ==
    /\ st[c] = "holding" /\ left[c] > 0
    /\ hand[c] < Slice \/ Bug = "hand-off for ever"
    /\ hand' = [hand EXCEPT ![c] = IF hand[c] < Slice THEN hand[c] + 1 ELSE 0]
    /\ net' = IF Bug = "release after a hand-off" THEN net \cup {Request("release", Me(c))} ELSE net
    /\ UNCHANGED <<server, st, left, age, counts>>

(* A release, also of a lease that is over, whose owner may still be in the hash. *)
Release(c) ==
    /\ st[c] = "holding"
    /\ Rest(c)
    /\ net' = Abandon(net, Me(c)) \cup {Request("release", Me(c))}
    /\ UNCHANGED <<server, counts>>

(* The caller goes away. What it may have got is undone, its place in the queue and its
   hold, by the same request. *)
GiveUp(c) ==
    /\ st[c] = "waiting" /\ ~Calm
    /\ Rest(c)
    /\ net' = Abandon(net, Me(c)) \cup {Request("release", Me(c))}
    /\ UNCHANGED <<server, counts>>

Crash(c) ==
    /\ st[c] # "idle" /\ crashes < Crashes
    /\ left' = [left EXCEPT ![c] = 0]  \* it relies on nothing any more
    /\ st' = [st EXCEPT ![c] = "dead"]
    /\ age' = [age EXCEPT ![c] = 0]
    /\ hand' = [hand EXCEPT ![c] = 0]
    /\ net' = {m \in Abandon(net, Me(c)) : ~(m.kind = "grant" /\ Client(m.o) = c)}
    /\ crashes' = crashes + 1
    /\ UNCHANGED <<server, calls, failovers>>

-----------------------------------------------------------------------------
(* The server. Each request is one script. *)

Valid(c) == st[c] = "holding" /\ left[c] > 0
Holds(o) == ttl > 0 /\ holder = o
Answer(m, reply) == net' = (net \ {m}) \cup (IF m.live THEN {reply} ELSE {})
Replicated(m, now) == replica' = IF Strict /\ m.live /\ failovers < Failovers THEN now ELSE replica

(* The reply that the lock is held changes nothing at the client, so it is not modelled. *)
Acquire(c) ==
    /\ \E m \in net :
        /\ m.kind = "acquire" /\ Client(m.o) = c
        /\ IF ttl = 0 \/ holder = m.o
           THEN /\ holder' = m.o
                /\ ttl' = L
                /\ queue' = Remove(queue, m.o)
                /\ Answer(m, Message("granted", m.o, TRUE, m.age))
                /\ Replicated(m, [holder |-> m.o, ttl |-> L, queue |-> queue'])
           ELSE /\ queue' = IF m.o \in Range(queue) THEN queue ELSE Append(queue, m.o)
                /\ UNCHANGED <<holder, ttl, replica>>
                /\ net' = net \ {m}
    /\ UNCHANGED <<plain, term, client, counts>>

(* Free the lock, or grant it to one that waits. Now and then a release grants to none:
   to give clients that do not queue their share, where a right is missing, or where a
   slot moves. In a calm run it does not do so twice in a row. *)
Pass(m, waiting) ==
    \/ /\ waiting # <<>>
       /\ \E i \in 1..Len(waiting) :
            /\ i = 1 \/ Lossy  \* one that does not listen is passed over
            /\ holder' = waiting[i]
            /\ ttl' = G
            /\ queue' = Remove(waiting, waiting[i])
            /\ net' = (net \ {m}) \cup {Grant(waiting[i])}
                      \cup (IF Bug = "grant to the next as well" /\ i < Len(waiting) THEN {Grant(waiting[i + 1])} ELSE {})
       /\ plain' = FALSE
    \/ /\ waiting = <<>> \/ ~plain \/ Bug = "plain releases for ever"
       /\ holder' = None
       /\ ttl' = 0
       /\ queue' = waiting
       /\ net' = net \ {m}
       /\ plain' = (Calm /\ waiting # <<>>)

ExecuteRelease(c) ==
    /\ \E m \in net :
        /\ m.kind = "release" /\ Client(m.o) = c
        /\ LET waiting == Remove(queue, m.o)
           IN IF Holds(m.o) \/ (Bug = "release without an owner check" /\ ttl > 0)
              THEN Pass(m, waiting)
              ELSE /\ queue' = waiting
                   /\ net' = net \ {m}
                   /\ UNCHANGED <<holder, ttl, plain>>
    /\ UNCHANGED <<term, replica, client, counts>>

ExecuteRenew(c) ==
    /\ \E m \in net :
        /\ m.kind = "renew" /\ Client(m.o) = c
        /\ IF Holds(m.o) \/ (Bug = "renewal without an owner check" /\ ttl > 0)
           THEN /\ ttl' = L
                /\ Replicated(m, [holder |-> holder, ttl |-> L, queue |-> queue])
                /\ Answer(m, Message("renewed", m.o, TRUE, m.age))
           ELSE /\ net' = net \ {m}  \* the reply ends a lease that is over
                /\ UNCHANGED <<ttl, replica>>
    /\ UNCHANGED <<holder, queue, plain, term, client, counts>>

(* The replica catches up at some time. In strict mode the server has it do so before
   it replies to a request. *)
Replicate ==
    /\ Strict /\ failovers < Failovers
    /\ replica # [holder |-> holder, ttl |-> ttl, queue |-> queue]
    /\ replica' = [holder |-> holder, ttl |-> ttl, queue |-> queue]
    /\ UNCHANGED <<holder, ttl, queue, plain, term, net, client, counts>>

(* Another server takes over, with another clock: a replica that was promoted, or, where
   nothing is said of replicas, one to which the slot has moved with all its keys. *)
Failover ==
    /\ failovers < Failovers
    /\ failovers' = failovers + 1
    /\ term' = 1 - term
    /\ IF Strict
       THEN holder' = replica.holder /\ ttl' = replica.ttl /\ queue' = replica.queue
       ELSE UNCHANGED <<holder, ttl, queue>>
    /\ replica' = IF failovers' < Failovers THEN replica ELSE NoReplica
    /\ UNCHANGED <<plain, net, client, calls, crashes>>

Lose ==
    /\ Lossy
    /\ \E m \in net : (m.kind = "grant" \/ ~Calm) /\ net' = net \ {m}
    /\ UNCHANGED <<server, client, counts>>

(* After L a client gives up on a request, and a reply that late is of no use. *)
Older(m) ==
    CASE m.kind = "acquire" /\ m.live -> IF m.age + 1 < L THEN {[m EXCEPT !.age = @ + 1]} ELSE {Message("acquire", m.o, FALSE, 0)}
      [] m.kind \in {"renew", "granted", "renewed"} -> IF m.age + 1 < L THEN {[m EXCEPT !.age = @ + 1]} ELSE {}
      [] OTHER -> {m}

Tick ==
    /\ Calm => net = {} /\ \A c \in Clients : Valid(c) => left[c] > 1  \* it renews in time
    /\ ttl' = Max(0, ttl - 1)
    /\ holder' = IF ttl <= 1 THEN None ELSE holder
    /\ replica' = [replica EXCEPT !.ttl = Max(0, @ - 1), !.holder = IF replica.ttl <= 1 THEN None ELSE @]
    /\ left' = [c \in Clients |-> Max(0, left[c] - 1)]
    /\ net' = UNION {Older(m) : m \in net}
    /\ age' = [c \in Clients |-> IF st[c] = "waiting" THEN Min(G, age[c] + 1) ELSE 0]
    /\ UNCHANGED <<queue, plain, term, st, hand, counts>>

Serve(c) == Acquire(c) \/ ExecuteRelease(c) \/ ExecuteRenew(c)
Receive(c) == ReceiveGranted(c) \/ ReceiveGrant(c) \/ ReceiveRenewed(c)

Next ==
    \/ \E c \in Clients : st[c] # "dead" /\
          (Begin(c) \/ Look(c) \/ Timeout(c) \/ Receive(c) \/ Renew(c) \/ HandOff(c) \/ Release(c) \/ GiveUp(c) \/ Crash(c))
    \/ \E c \in Clients : Serve(c)
    \/ Replicate \/ Failover \/ Lose \/ Tick

Spec == Init /\ [][Next]_vars

(* A calm run: the server and the clients do what they can, in the end. *)
Live == Spec
    /\ SF_vars(Tick)
    /\ \A c \in Clients : WF_vars(Serve(c)) /\ WF_vars(Receive(c)) /\ SF_vars(Look(c)) /\ WF_vars(HandOff(c) \/ Release(c))

Few == Cardinality(net) <= MaxNet /\ Len(queue) <= Cardinality(Clients)
Symmetry == Permutations(Clients)

-----------------------------------------------------------------------------
(* What is promised. *)

P1 == \A c, d \in Clients : Valid(c) /\ Valid(d) => c = d

(* While a holder relies on the lock, the server keeps it for that holder, and longer. *)
P2 == \A c \in Clients : Valid(c) => Holds(Me(c)) /\ ttl >= left[c]

One == CHOOSE c \in Clients : TRUE  \* all are alike

(* A lock does not stay free while some wait, even if all messages are lost. *)
P5 == st[One] = "waiting" ~> st[One] # "waiting" \/ \E d \in Clients : st[d] = "holding"

(* Where no message is lost, each that waits gets the lock. *)
Turn == st[One] = "waiting" ~> st[One] # "waiting"

(* What an abandoned call has got is free again. Its place in the queue may remain: a
   grant to it is passed on. *)
Undone == st[One] = "idle" ~> st[One] # "idle" \/ ~Holds(Me(One))

(* Nothing that a client sends changes what another one holds: before its time is over,
   a lock changes hands only by what its own owner has sent. *)
P6 == [][(ttl > 1 /\ holder' # holder /\ Client(holder') # Client(holder)) =>
            \/ \E m \in net \ net' : m.kind = "release" /\ m.o = holder
            \/ term' # term]_vars
=============================================================================
