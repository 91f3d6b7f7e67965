-------------------------------- MODULE Queue --------------------------------
(* The queue of the owners that wait for a lock or for permits, and for how long
   something stays unused that one of them wants. Mutex.tla says why leases and grants
   are valid. README.md says what is modelled and how to run it.

   An owner is one call of one client. What is concerned by no fault takes no time: Tick
   waits for it. So a bound on time is an invariant. *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Owners,
    Big,    \* owners that want two permits; the others want one
    N,      \* permits; a mutex has one
    L,      \* lease of what was asked for, and of a renewal
    G,      \* lease of what a pass has granted
    D,      \* a request that its client has given up arrives within this time, or never
    Poll,   \* the first in the queue looks this often
    Rare,   \* the others look this often
    K,      \* entries that a pass examines
    Look,   \* the bound of Served
    Looks,  \* owners that wait look by themselves
    Plain,  \* a release may grant to none and tell the first to ask
    Once,   \* faults that may happen once
    Twice,  \* and twice
    Off     \* rules that are left out

VARIABLES
    up,     \* the server answers
    hold,   \* of each owner: how long the server keeps what it holds
    queue,  \* owners that wait, first come first
    net,    \* requests and messages on their way
    mode,   \* of each owner: see Live
    left,   \* of each owner: how long its client believes to hold
    age,    \* of each owner that waits: how long ago its call began
    due,    \* of each owner: when its client sends the next request
    may,    \* owners of which something may be at the server, by what their clients know
    open,   \* of each owner: an unanswered request may still arrive, see Unanswered
    idle,   \* of each owner that waits: how long something has been unused that it wants
    faults  \* that may still happen

server == <<up, hold, queue>>
client == <<mode, left, age, due, may, open>>
vars == <<server, net, client, idle, faults>>

(* An owner that is not new waits, uses what it holds, has been told that it is lost and
   stops, or its call is over. Otherwise its client is dead, or frozen: then the server
   believes that it listens. *)
Live == {"wait", "use", "stop", "over"}
Deaf(o) == mode[o] \in {"dead", "dead in use"}

Never == 99
On(rule) == rule \notin Off
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Range(s) == {s[i] : i \in 1..Len(s)}
Without(s, o) == SelectSeq(s, LAMBDA x : x # o)
Place(s, o) == CHOOSE i \in 1..Len(s) : s[i] = o
Need(o) == IF o \in Big THEN 2 ELSE 1
Sum(S) == Cardinality(S) + Cardinality(S \cap Big)
Free(h) == N - Sum({o \in Owners : h[o] > 0})
Ttl(h) == LET T == {h[o] : o \in Owners} \ {0} IN IF T = {} THEN 0 ELSE CHOOSE t \in T : \A u \in T : t <= u

Spend(fault) == faults[fault] > 0 /\ faults' = [faults EXCEPT ![fault] = @ - 1]

(* Requests: ask enters the queue, looks, or confirms a grant. Free leaves the queue and
   releases. Live means that the client waits for the reply, late that it may take time,
   sure that no earlier request of the owner could arrive when it was sent. *)
Request(kind, o) ==
    [kind |-> kind, o |-> o, live |-> TRUE, age |-> 0, late |-> FALSE, sure |-> kind = "free" /\ open[o] = 0]
Requests == {m \in net : m.kind \in {"ask", "free", "renew"}}
Waits(o) == \E m \in Requests : m.o = o /\ m.live
Asks(o) == \E m \in Requests : m.o = o /\ m.live /\ m.kind = "ask"

(* Messages: grant, with 1 if a pass has sent it; first (you are the first), with the TTL
   of what is held; look (ask now). *)
Message(kind, o, x) == [kind |-> kind, o |-> o, x |-> x, late |-> FALSE]
Messages == net \ Requests

(* What is left of a request when its client does not wait for the reply any more. Only a
   late ask matters: it enters the queue, or takes what is free. *)
Abandoned(m) == IF m.kind = "ask" THEN {[m EXCEPT !.live = FALSE, !.age = 0]} ELSE {}
Abandon(n, o) == UNION {IF m \in Requests /\ m.o = o /\ m.live THEN Abandoned(m) ELSE {m} : m \in n}

(* D + 2: a request of this owner has no answer. D + 1: a later one has been answered, so
   the server reads again. From then on, time counts while it answers. 0: none can arrive. *)
Unanswered == IF On("doubt counts from an answer") THEN D + 2 ELSE D + 1
Doubt(o) == open' = IF Asks(o) THEN [open EXCEPT ![o] = Unanswered] ELSE open

Init ==
    /\ up = TRUE /\ hold = [o \in Owners |-> 0] /\ queue = <<>> /\ net = {}
    /\ mode = [o \in Owners |-> "new"] /\ left = [o \in Owners |-> 0] /\ age = [o \in Owners |-> 0]
    /\ due = [o \in Owners |-> 0] /\ may = {} /\ open = [o \in Owners |-> 0]
    /\ idle = [o \in Owners |-> 0]
    /\ faults = [f \in {"silence", "delay", "reply", "loss", "copy", "crash", "quit", "freeze", "flush", "forget", "forge"} |->
                   IF f \in Twice THEN 2 ELSE IF f \in Once THEN 1 ELSE 0]

-----------------------------------------------------------------------------
(* Clients *)

Send(o, kind) == net' = net \cup {Request(kind, o)} /\ UNCHANGED <<server, mode, left, age, due, open, idle, faults>>

Begin(o) ==
    /\ mode[o] = "new" /\ up
    /\ mode' = [mode EXCEPT ![o] = "wait"]
    /\ may' = may \cup {o}
    /\ net' = net \cup {Request("ask", o)}
    /\ UNCHANGED <<server, left, age, due, open, idle, faults>>

(* While the server is silent, one copy of a request is enough. *)
Ask(o) ==
    /\ mode[o] = "wait" /\ due[o] = 0 /\ ~Waits(o)
    /\ up \/ ~\E m \in Requests : m.o = o
    /\ Send(o, "ask") /\ UNCHANGED may

Renew(o) == mode[o] = "use" /\ left[o] < L /\ ~Waits(o) /\ up /\ Send(o, "renew") /\ UNCHANGED may

(* A call gives up, or releases. From then on it is settled. *)
End(o) ==
    /\ mode[o] \in {"wait", "use"}
    /\ mode' = [mode EXCEPT ![o] = "over"]
    /\ left' = [left EXCEPT ![o] = 0]
    /\ age' = [age EXCEPT ![o] = 0]
    /\ due' = [due EXCEPT ![o] = 0]
    /\ Doubt(o)
    /\ net' = Abandon(net, o)
    /\ UNCHANGED <<server, may, idle, faults>>

(* Free is sent until the server confirms it, and no earlier request can arrive. *)
Settle(o) == mode[o] = "over" /\ o \in may /\ due[o] = 0 /\ ~Waits(o) /\ up /\ Send(o, "free") /\ UNCHANGED may

(* A client that settles too many owners forgets one that can hold nothing any more. *)
Forget(o) ==
    /\ mode[o] = "over" /\ o \in may /\ hold[o] = 0 /\ ~\E m \in Requests : m.o = o
    /\ Spend("forget")
    /\ may' = may \ {o}
    /\ open' = [open EXCEPT ![o] = 0]
    /\ UNCHANGED <<server, net, mode, left, age, due, idle>>

(* A grant counts from when the call began. If too little is left, the owner asks. *)
ReceiveGrant(m) ==
    LET o == m.o
        rest == net \ {m}
    IN IF G - age[o] > 1
       THEN /\ mode' = [mode EXCEPT ![o] = "use"]
            /\ left' = [left EXCEPT ![o] = G - age[o]]
            /\ due' = [due EXCEPT ![o] = 0]
            /\ Doubt(o)
            /\ net' = Abandon(rest, o)
            /\ UNCHANGED <<age, may>>
       ELSE due' = [due EXCEPT ![o] = 0] /\ net' = rest /\ UNCHANGED <<mode, left, age, may, open>>

(* What arrives for a call that is over is given back: the owner is settled again. *)
Receive(m) ==
    LET o == m.o
        rest == net \ {m}
        soon(t) == due' = [due EXCEPT ![o] = Min(@, t)] /\ net' = rest /\ UNCHANGED <<mode, left, age, may, open>>
    IN /\ CASE m.kind = "grant" /\ m.x = 0 /\ On("secret") -> net' = rest /\ UNCHANGED client
            [] m.kind = "grant" /\ mode[o] = "wait" -> ReceiveGrant(m)
            [] m.kind = "look" /\ mode[o] = "wait" -> soon(0)
            [] m.kind = "first" /\ mode[o] = "wait" /\ On("the first looks") -> soon(Min(Poll, IF On("ttl") THEN m.x ELSE Poll))
            [] m.kind = "grant" /\ mode[o] = "use" /\ ~On("only unknown owners give back") ->
                 net' = rest \cup {Request("free", o)} /\ UNCHANGED client
            [] mode[o] = "over" /\ On("give back") ->
                 may' = may \cup {o} /\ due' = [due EXCEPT ![o] = 0] /\ net' = rest /\ UNCHANGED <<mode, left, age, open>>
            [] OTHER -> net' = rest /\ UNCHANGED client
       /\ UNCHANGED <<server, idle, faults>>

-----------------------------------------------------------------------------
(* The server. Each request is one script. *)

(* A pass grants what is free to those in the queue whose clients listen and that want no
   more, from place i on. If it stops at its bound, it tells the next one to ask. *)
RECURSIVE Pass(_, _, _, _, _)
Pass(h, q, out, i, n) ==
    IF i > Len(q) \/ Free(h) = 0 THEN [hold |-> h, queue |-> q, out |-> out]
    ELSE IF n = K
    THEN LET told == IF On("bounds tell") THEN {Message("look", IF On("bounds tell the next") THEN q[i] ELSE q[1], 0)} ELSE {}
         IN [hold |-> h, queue |-> q, out |-> out \cup told]
    ELSE LET o == q[i] IN
         IF Deaf(o) /\ On("only listeners") THEN Pass(h, Without(q, o), out, i, n + 1)
         ELSE IF Need(o) > Free(h) THEN Pass(h, q, out, i + 1, n + 1)
         ELSE Pass([h EXCEPT ![o] = G], Without(q, o), out \cup {Message("grant", o, 1)}, i, n + 1)

NoPass(h, q) == [hold |-> h, queue |-> q, out |-> {}]

(* The end of each script: if another owner is the first now, it is told. The owner that
   asks is told by the reply. *)
Done(m, s) ==
    LET changed == s.queue # <<>> /\ (queue = <<>> \/ queue[1] # s.queue[1])
        told == IF changed /\ On("the first is told") THEN {Message("first", s.queue[1], Ttl(s.hold))} ELSE {}
        heard == {x \in s.out \cup told : mode[x.o] \in Live /\ ~(m.live /\ m.kind = "ask" /\ x.o = m.o)}
    IN hold' = s.hold /\ queue' = s.queue /\ net' = (net \ {m}) \cup heard /\ UNCHANGED up

Answered(m, lost) == m.live /\ mode[m.o] \in Live /\ ~lost

(* The client does not learn that its request was executed. It asks again later. *)
NoReply(m) ==
    IF m.live /\ mode[m.o] \in Live
    THEN /\ due' = [due EXCEPT ![m.o] = 1]
         /\ open' = [open EXCEPT ![m.o] = IF m.kind = "ask" \/ @ > 0 THEN Unanswered ELSE 0]
         /\ UNCHANGED <<mode, left, age, may>>
    ELSE UNCHANGED client

(* A look that finds enough takes it: its client lives. It passes on the rest, or what is
   too little for it, to those behind it. *)
ExecAsk(m, lost) ==
    LET o == m.o
        others == Without(queue, o)
        entered == IF o \in Range(queue) THEN queue ELSE Append(queue, o)
        takes == hold[o] > 0 \/ (Need(o) <= Free(hold) /\ (On("a look takes") \/ others = <<>>))
        got == [hold EXCEPT ![o] = L]
        s == CASE takes /\ On("a look passes") -> Pass(got, others, {}, 1, 0)
               [] takes -> NoPass(got, others)
               [] ~takes /\ On("a look passes") -> Pass(hold, entered, {}, IF On("a look takes") THEN Place(entered, o) + 1 ELSE 1, 0)
               [] OTHER -> NoPass(hold, entered)
        held == s.hold[o] > 0
        place == Place(s.queue, o)
        next == CASE open[o] > 0 /\ On("doubt looks") -> 1
                  [] place > 1 /\ ~On("the first looks") -> place * Poll  \* the rule of old, scaled down
                  [] place > 1 -> IF On("the others look") THEN Rare ELSE Never
                  [] OTHER -> IF On("ttl") THEN Min(Poll, Max(1, Ttl(s.hold))) ELSE Poll
    IN /\ Done(m, IF held THEN [s EXCEPT !.hold[o] = L] ELSE s)
       /\ CASE ~Answered(m, lost) -> NoReply(m)
            [] Answered(m, lost) /\ held ->
                 /\ mode' = [mode EXCEPT ![o] = "use"]
                 /\ left' = [left EXCEPT ![o] = L - m.age]
                 /\ due' = [due EXCEPT ![o] = 0]
                 /\ UNCHANGED <<age, may, open>>
            [] OTHER ->
                 /\ due' = [due EXCEPT ![o] = next]
                 /\ open' = [open EXCEPT ![o] = Min(@, D + 1)]
                 /\ UNCHANGED <<mode, left, age, may>>

ExecFree(m, lost) ==
    LET o == m.o
        h == [hold EXCEPT ![o] = 0]
        q == Without(queue, o)
    IN /\ \/ Done(m, IF hold[o] > 0 \/ On("a departure passes") THEN Pass(h, q, {}, 1, 0) ELSE NoPass(h, q))
          \/ LET w == IF On("only listeners") THEN SelectSeq(q, LAMBDA x : ~Deaf(x)) ELSE q
             IN Plain /\ hold[o] > 0 /\ w # <<>> /\ Done(m, [NoPass(h, w) EXCEPT !.out = {Message("look", w[1], 0)}])
       /\ CASE ~Answered(m, lost) -> NoReply(m)
            [] Answered(m, lost) /\ mode[o] # "over" -> UNCHANGED client
            [] Answered(m, lost) /\ mode[o] = "over" /\ (m.sure \/ ~On("doubt")) ->
                 may' = may \ {o} /\ open' = [open EXCEPT ![o] = 0] /\ UNCHANGED <<mode, left, age, due>>
            [] OTHER ->
                 /\ due' = [due EXCEPT ![o] = 1]
                 /\ open' = [open EXCEPT ![o] = Min(@, D + 1)]
                 /\ UNCHANGED <<mode, left, age, may>>

ExecRenew(m, lost) ==
    LET o == m.o IN
    /\ Done(m, NoPass(IF hold[o] > 0 THEN [hold EXCEPT ![o] = L] ELSE hold, queue))
    /\ CASE ~Answered(m, lost) -> NoReply(m)
         [] Answered(m, lost) /\ mode[o] # "use" -> UNCHANGED client
         [] Answered(m, lost) /\ mode[o] = "use" /\ hold[o] > 0 ->
              left' = [left EXCEPT ![o] = Max(@, L - m.age)] /\ UNCHANGED <<mode, age, due, may, open>>
         [] OTHER -> mode' = [mode EXCEPT ![o] = "over"] /\ left' = [left EXCEPT ![o] = 0] /\ UNCHANGED <<age, due, may, open>>

(* A release does not overtake an earlier request of its owner, unless that is late. *)
Exec(m) ==
    /\ up
    /\ m.kind = "free" => ~\E x \in Requests : x.o = m.o /\ x.kind = "ask" /\ ~x.late
    /\ \E lost \in {FALSE, TRUE} :
        /\ IF lost THEN m.live /\ Spend("reply") ELSE UNCHANGED faults
        /\ CASE m.kind = "ask" -> ExecAsk(m, lost)
             [] m.kind = "free" -> ExecFree(m, lost)
             [] m.kind = "renew" -> ExecRenew(m, lost)
    /\ UNCHANGED idle

-----------------------------------------------------------------------------
(* Faults *)

Silence == up /\ Spend("silence") /\ up' = FALSE /\ UNCHANGED <<hold, queue, net, client, idle>>
Return == ~up /\ up' = TRUE /\ UNCHANGED <<hold, queue, net, client, idle, faults>>

Stop(o, now, inUse) ==
    /\ mode[o] \in {"wait", "use"} /\ ~Asks(o)
    /\ mode' = [mode EXCEPT ![o] = IF @ = "use" THEN inUse ELSE now]
    /\ age' = [age EXCEPT ![o] = 0]
    /\ due' = [due EXCEPT ![o] = 0]
    /\ net' = {m \in Abandon(net, o) : m \in Messages => m.o # o}
    /\ UNCHANGED <<server, may, open, idle>>
Crash(o) ==
    /\ Spend("crash") \/ (o \in Range(queue) /\ Spend("quit"))  \* quit: only in the queue
    /\ Stop(o, "dead", "dead in use")
    /\ left' = [left EXCEPT ![o] = 0]
Freeze(o) == Spend("freeze") /\ Stop(o, "frozen", "frozen in use") /\ UNCHANGED left  \* it believes to hold what it holds

(* The key of the queue is lost. *)
Flush == queue # <<>> /\ Spend("flush") /\ queue' = <<>> /\ UNCHANGED <<up, hold, net, client, idle>>

Delay(m) == m.kind = "ask" /\ ~m.late /\ Spend("delay") /\ net' = (net \ {m}) \cup {[m EXCEPT !.late = TRUE]}
            /\ UNCHANGED <<server, client, idle>>
Copy(m) == ~m.late /\ Spend("copy") /\ net' = net \cup {[m EXCEPT !.late = TRUE]} /\ UNCHANGED <<server, client, idle>>
Lose(m) == Spend("loss") /\ net' = net \ {m} /\ UNCHANGED <<server, client, idle>>

(* A grant that no pass has sent. *)
Forge(o) == mode[o] \in Live /\ Spend("forge") /\ net' = net \cup {Message("grant", o, 0)} /\ UNCHANGED <<server, client, idle>>

-----------------------------------------------------------------------------
(* Time *)

(* What takes no time has happened. *)
Quiet ==
    /\ \A m \in Messages : m.late
    /\ \A m \in Requests : m.late \/ ~up
    /\ \A o \in Owners : Waits(o) \/
          CASE mode[o] = "wait" -> due[o] # 0 \/ \E m \in Requests : ~up /\ m.o = o
            [] mode[o] = "use" -> left[o] = L \/ ~up
            [] mode[o] = "over" -> due[o] # 0 \/ o \notin may \/ ~up
            [] OTHER -> TRUE

(* A live owner waits for something that no owner uses, also none that has died in use. *)
Users == {o \in Owners : hold[o] > 0 /\ mode[o] \in {"use", "stop", "dead in use", "frozen in use"}}
Unused(o) == up /\ mode[o] = "wait" /\ ~Waits(o) /\ Need(o) <= N - Sum(Users)

(* After a time a client gives up a request. *)
Older(m) ==
    LET x == IF up THEN m ELSE [m EXCEPT !.late = TRUE]
    IN CASE m \in Messages -> {m}
         [] m \in Requests /\ m.live -> IF m.age = 0 THEN {[x EXCEPT !.age = 1]} ELSE Abandoned(x)
         [] OTHER -> IF ~up THEN {x} ELSE IF m.age < D THEN {[x EXCEPT !.age = @ + 1]} ELSE {}
GivesUp(o, kind) == \E m \in Requests : m.o = o /\ m.live /\ m.age = 1 /\ m.kind = kind

Tick ==
    /\ Quiet
    /\ hold' = [o \in Owners |-> Max(0, hold[o] - 1)]
    /\ left' = [o \in Owners |-> Max(0, left[o] - 1)]
    /\ mode' = [o \in Owners |->
                  CASE mode[o] = "use" /\ left[o] <= 2 -> IF On("a loss waits") THEN "stop" ELSE "over"
                    [] mode[o] = "stop" /\ left[o] <= 1 -> "over"
                    [] OTHER -> mode[o]]
    /\ age' = [o \in Owners |-> IF mode[o] = "wait" THEN Min(G - 1, age[o] + 1) ELSE 0]
    /\ due' = [o \in Owners |-> IF due[o] \in {0, Never} \/ (mode[o] = "wait" /\ ~Looks) THEN due[o] ELSE due[o] - 1]
    /\ net' = UNION {Older(m) : m \in net}
    /\ open' = [o \in Owners |->
                  CASE GivesUp(o, "ask") -> Unanswered
                    [] open[o] > 0 /\ (~up \/ Waits(o)) /\ On("doubt counts from an answer") -> Unanswered
                    [] open[o] \in 1..(D + 1) -> open[o] - 1
                    [] OTHER -> open[o]]
    /\ may' = may \ {o \in Owners : mode[o] = "over" /\ ~On("settle") /\ (~up \/ GivesUp(o, "free"))}
    /\ idle' = [o \in Owners |-> IF Unused(o) THEN Min(idle[o] + 1, Look + 1) ELSE 0]
    /\ UNCHANGED <<up, queue, faults>>

(* Of steps that take no time, a request is executed before all others. *)
Busy == up /\ \E m \in Requests : ~m.late

Next ==
    \/ Silence
    \/ \E m \in Requests : (Busy => ~m.late) /\ (Exec(m) \/ Delay(m))
    \/ /\ ~Busy
       /\ \/ \E o \in Owners : Begin(o) \/ Ask(o) \/ Renew(o) \/ End(o) \/ Settle(o) \/ Forget(o)
          \/ \E o \in Owners : Crash(o) \/ Freeze(o) \/ Forge(o)
          \/ \E m \in Messages : Receive(m) \/ Lose(m) \/ Copy(m)
          \/ Return \/ Flush \/ Tick

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Owners \ Big) \cup Permutations(Big)

-----------------------------------------------------------------------------
(* What is promised. *)

(* No more is used than there is, also by owners that have been told to stop. *)
Exclusion == Sum({o \in Owners : left[o] > 0}) <= N

(* While a client believes to hold something, the server keeps it for that client. *)
Kept == \A o \in Owners : left[o] > 0 => hold[o] >= left[o]

(* Of a call that is settled nothing is at the server, and nothing can arrive. *)
Nothing == \A o \in Owners : mode[o] = "over" /\ o \notin may =>
    hold[o] = 0 /\ o \notin Range(queue) /\ ~\E m \in Requests : m.o = o

(* What is unused and wanted is granted in time. *)
Served == \A o \in Owners : idle[o] <= Look
=============================================================================
